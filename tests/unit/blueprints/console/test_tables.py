"""The cells of a table have the names of their columns, which a phone shows."""

from migration_service.blueprints.console.display import label_cells

_HEAD = (
    '<thead><tr><th scope="col" class="text-end">Line</th><th scope="col">Who &amp; when</th>'
    '<th scope="col"><span class="visually-hidden">Actions</span></th></tr></thead><tbody>'
)


def test_each_cell_has_the_name_of_its_column() -> None:
    row = '<tr class="x"><th scope="row">1</th><td class="code">&lt;td&gt;</td>\n<td><a>Change</a></td></tr>'
    assert label_cells(_HEAD + row + row) == _HEAD + 2 * (
        '<tr class="x"><th scope="row" data-label="Line">1</th>'
        '<td data-label="Who &amp; when" class="code">&lt;td&gt;</td>\n<td><a>Change</a></td></tr>'
    )


def test_a_cell_of_all_columns_has_no_name() -> None:
    row = '<tr><td colspan="3">There is none.</td></tr>'
    assert label_cells(_HEAD + row) == _HEAD + row
