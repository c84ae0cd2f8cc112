"""Recipes of a campaign: what they were, and when they changed."""

from __future__ import annotations

from taskq.campaign.subtree import Subtree
from taskq.model.errors import NotFound
from taskq.model.recipes import Recipe, RecipeChange


def changes(subtree: Subtree) -> list[RecipeChange]:
    """Return the changes of a campaign's recipe, in their order."""
    subtree.row()
    rows = subtree.database.rows("campaign_changes", path=subtree.path)
    return [RecipeChange(**row) for row in rows]


def recipe(subtree: Subtree, number: int | None) -> Recipe:
    """Return a recipe by its number, or the one that the campaign has now; raise `NotFound`."""
    subtree.row()
    row = subtree.database.row("recipe", path=subtree.path, recipe=number)
    if row is None:
        raise NotFound(
            f"{subtree.path} has no recipe {number}; `taskq campaign changes {subtree.path}` "
            "shows all"
        )
    return Recipe(**row)
