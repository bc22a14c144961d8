"""`ddp-play check --self-test`: defects that are made on hosts of a lab, and what the check finds of them."""
