"""Whether the installed key of a package repository is a known one."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Union

from ansible_collections.ddp.play.plugins.module_utils import openpgp


def known_keys(site: Union[str, Sequence[str]], vendor: Sequence[str]) -> List[str]:
    """Fingerprints of the site's own keys if it has any, or the vendor's; a text has commas in between."""
    given = site.split(",") if isinstance(site, str) else site
    own = [str(one).strip() for one in given if str(one).strip()]
    return own or list(vendor)


def key_is_stale(file: Dict[str, Any], known: Sequence[str]) -> bool:
    """Whether a file, as ddp.play.host_state returns it with its text, is absent or has a key that is not known."""
    try:
        return bool(openpgp.unknown(openpgp.fingerprints(str(file["content"]).encode()), known))
    except ValueError:
        return True


class FilterModule:
    """The filters by the names that the roles use."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name; Ansible adds the collection's name."""
        return {"repository_keys": known_keys, "repository_key_stale": key_is_stale}
