"""Progress of a training, and random numbers of a step."""

import torch

from trainer.training_state import Progress, seed_step


def test_progress_counts_epochs() -> None:
    progress = Progress(loss_sum=6.0, num_samples=3)
    progress.advance(2)
    assert (progress.epoch, progress.step_in_epoch, progress.mean_loss) == (0, 1, 2.0)
    progress.advance(2)
    assert (progress.epoch, progress.step_in_epoch, progress.step) == (1, 0, 2)
    assert (progress.train_loss, progress.mean_loss, progress.num_samples) == (2.0, 2.0, 0)


def test_what_a_step_draws_depends_on_seed_step_and_rank() -> None:
    def draw(*place: int) -> float:
        seed_step(*place)
        return float(torch.rand(()))

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(1, 2, 3), draw(2, 2, 3), draw(1, 3, 3), draw(1, 2, 4), draw(12, 3, 0), draw(1, 23, 0)}) == 6
