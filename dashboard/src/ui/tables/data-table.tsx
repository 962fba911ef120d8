import {
  type ColumnDef,
  createSortedRowModel,
  rowSelectionFeature,
  rowSortingFeature,
  sortFn_alphanumeric,
  sortFn_basic,
  tableFeatures,
  useTable,
} from '@tanstack/react-table'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown, ArrowUp, Copy } from 'lucide-react'
import { type KeyboardEvent, type MouseEvent, memo, type ReactNode, useEffect, useRef, useState } from 'react'
import { Button } from '../controls/button.tsx'
import { EmptyState, ErrorState } from '../display/states.tsx'
import { words } from '../words.ts'

export interface Column<Row extends object> {
  id: string
  header: string
  cell: (row: Row) => ReactNode
  /** Makes the column sortable, for lists that are loaded as a whole. */
  sortBy?: (row: Row) => string | number | null | undefined
  align?: 'right'
  /** Hidden on small screens. */
  isMinor?: true
}

/** Rows that are loaded as the user scrolls to them. */
export interface RowSource<Row extends object> {
  count: number
  /** Undefined while the row is loading. */
  at: (index: number) => Row | undefined
  show?: (first: number, last: number) => void
}

interface DataTableProps<Row extends object> {
  label: string
  columns: readonly Column<Row>[]
  /** Undefined while loading. */
  rows: readonly Row[] | RowSource<Row> | undefined
  rowId: (row: Row) => string
  error?: Error | null
  onRetry?: () => void
  onOpen?: (row: Row) => void
  /** For lists that are empty, but not because of filters. */
  empty: ReactNode
  isFiltered?: boolean
  onClearFilters?: () => void
  /** A column's id, with a minus in front for descending order. */
  sort?: string
  onSort?: (sort: string) => void
  bulkActions?: (rows: Row[], done: () => void) => ReactNode
}

const features = tableFeatures({
  rowSortingFeature,
  rowSelectionFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns: { alphanumeric: sortFn_alphanumeric, basic: sortFn_basic },
})

const rowHeight = 41
const shownWhileLoading = 5
const isSource = <Row extends object>(rows: readonly Row[] | RowSource<Row>): rows is RowSource<Row> =>
  !Array.isArray(rows)

/**
 * A list with keyboard support, selection and copying as JSON. It only renders the rows near the visible part of the
 * page, so that it may have any length.
 */
export function DataTable<Row extends object>({
  rows,
  error,
  onRetry,
  empty,
  isFiltered,
  onClearFilters,
  ...props
}: DataTableProps<Row>) {
  const count = rows && (isSource(rows) ? rows.count : rows.length)
  if (error && !rows) return <ErrorState error={error} {...(onRetry && { onRetry })} />
  if (count === 0 && !isFiltered) return <div className="card">{empty}</div>
  if (count === 0) {
    return (
      <div className="card">
        <EmptyState
          title={words.nothingFound}
          text={words.nothingFoundText}
          action={onClearFilters && <Button onClick={onClearFilters}>{words.clear}</Button>}
        />
      </div>
    )
  }
  return <FilledTable {...props} rows={rows} />
}

type FilledProps<Row extends object> = Omit<
  DataTableProps<Row>,
  'error' | 'onRetry' | 'empty' | 'isFiltered' | 'onClearFilters'
>

function FilledTable<Row extends object>({
  label,
  columns,
  rows,
  rowId,
  onOpen,
  sort = '',
  onSort,
  bulkActions,
}: FilledProps<Row>) {
  const source = rows && isSource(rows) ? rows : undefined
  const whole = rows && !isSource(rows) ? rows : undefined
  const body = useRef<HTMLTableSectionElement>(null)
  const [focused, setFocused] = useState(0)
  const [selection, setSelection] = useState<Record<string, true>>({})
  const known = useRef(new Map<string, Row>())

  const table = useTable({
    features,
    columns: columns.map(
      ({ id, sortBy }): ColumnDef<typeof features, Row> => ({
        id,
        accessorFn: (row) => sortBy?.(row) ?? '',
        enableSorting: sortBy !== undefined && source === undefined,
      }),
    ),
    data: (whole ?? []) as Row[],
    getRowId: rowId,
    state: {
      sorting: sort ? [{ id: sort.replace(/^-/, ''), desc: sort.startsWith('-') }] : [],
      rowSelection: selection,
    },
  })
  const sorted = whole ? table.getRowModel().rows : []
  const count = source?.count ?? (whole ? sorted.length : shownWhileLoading)
  const rowAt = (index: number): Row | undefined => source?.at(index) ?? sorted[index]?.original

  const virtualizer = useWindowVirtualizer({
    count,
    estimateSize: () => rowHeight,
    overscan: 4,
    scrollMargin: body.current?.offsetTop ?? 0,
  })
  const items = virtualizer.getVirtualItems()
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0]
  useEffect(() => source?.show?.(first, last), [source, first, last])
  const before = (items[0]?.start ?? 0) - virtualizer.options.scrollMargin
  const after = virtualizer.getTotalSize() - ((items.at(-1)?.end ?? 0) - virtualizer.options.scrollMargin)

  for (const { index } of items) {
    const row = rowAt(index)
    if (row) known.current.set(rowId(row), row)
  }
  const selected = Object.keys(selection).flatMap((id) => known.current.get(id) ?? [])
  const toggle = (row: Row) =>
    setSelection(({ [rowId(row)]: was, ...others }) => (was ? others : { ...others, [rowId(row)]: true }))

  function focusRow(index: number) {
    const next = Math.max(0, Math.min(count - 1, index))
    setFocused(next)
    virtualizer.scrollToIndex(next)
    requestAnimationFrame(() => body.current?.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus())
  }
  function press(event: KeyboardEvent, index: number) {
    if (event.target !== event.currentTarget) return
    const row = rowAt(index)
    const actions: Record<string, () => void> = {
      ArrowDown: () => focusRow(index + 1),
      ArrowUp: () => focusRow(index - 1),
      Home: () => focusRow(0),
      End: () => focusRow(count - 1),
      Enter: () => row && onOpen?.(row),
      ' ': () => row && toggle(row),
    }
    const action = actions[event.key]
    if (!action) return
    event.preventDefault()
    action()
  }
  const actions = useRef<RowActions<Row>>(null)
  useEffect(() => {
    actions.current = { press, toggle, open: onOpen, focus: setFocused }
  })

  return (
    <div className="card overflow-hidden">
      {selected.length > 0 && (
        <div className="flex flex-wrap items-center gap-2 border-b border-line bg-sunken px-3 py-2">
          <span className="mr-auto font-[550]" aria-live="polite">
            {words.selected(selected.length)}
          </span>
          {bulkActions?.(selected, () => setSelection({}))}
          <Button icon={Copy} onClick={() => navigator.clipboard.writeText(JSON.stringify(selected, null, 2))}>
            {words.copyJson}
          </Button>
          <Button variant="ghost" onClick={() => setSelection({})}>
            {words.cancel}
          </Button>
        </div>
      )}
      <div className="overflow-x-auto">
        <table className="w-full text-sm" aria-label={label} aria-rowcount={count + 1}>
          <thead>
            <tr className="text-left text-muted">
              <th className="w-9 py-2 pl-3">
                <span className="sr-only">{words.selectRow}</span>
              </th>
              {table.getHeaderGroups()[0]?.headers.map(({ column }, index) => {
                const { header, align, isMinor } = columns[index] as Column<Row>
                const order = column.getIsSorted()
                return (
                  <th
                    key={column.id}
                    scope="col"
                    aria-sort={order ? (order === 'desc' ? 'descending' : 'ascending') : undefined}
                    className={`px-3 py-2 font-[550] whitespace-nowrap ${align === 'right' ? 'text-right' : ''} ${isMinor ? 'hidden md:table-cell' : ''}`}
                  >
                    {column.getCanSort() && onSort ? (
                      <button
                        type="button"
                        className="inline-flex items-center gap-1 hover:text-text"
                        onClick={() => onSort(order === 'asc' ? `-${column.id}` : column.id)}
                      >
                        {header}
                        {order === 'asc' && <ArrowUp size={12} aria-hidden />}
                        {order === 'desc' && <ArrowDown size={12} aria-hidden />}
                      </button>
                    ) : (
                      header
                    )}
                  </th>
                )
              })}
            </tr>
          </thead>
          <tbody ref={body}>
            {before > 0 && <tr style={{ height: before }} aria-hidden />}
            {items.map(({ index }) => {
              const row = rowAt(index)
              if (!row) return <LoadingRow key={index} columns={columns.length} />
              return (
                <FilledRow
                  key={rowId(row)}
                  row={row as never}
                  index={index}
                  columns={columns as readonly Column<never>[]}
                  isSelected={selection[rowId(row)] ?? false}
                  isReached={index === Math.min(focused, last)}
                  canOpen={onOpen !== undefined}
                  actions={actions as { current: RowActions<never> | null }}
                />
              )
            })}
            {after > 0 && <tr style={{ height: after }} aria-hidden />}
          </tbody>
        </table>
      </div>
    </div>
  )
}

interface RowActions<Row extends object> {
  press: (event: KeyboardEvent, index: number) => void
  toggle: (row: Row) => void
  open: ((row: Row) => void) | undefined
  focus: (index: number) => void
}

const isControl = ({ target }: MouseEvent) => target instanceof Element && target.closest('a, button, input, label')

/** While the user scrolls, only rows that come into view are rendered, because the actions stay the same object. */
const FilledRow = memo(function FilledRow({
  row,
  index,
  columns,
  isSelected,
  isReached,
  canOpen,
  actions,
}: {
  row: never
  index: number
  columns: readonly Column<never>[]
  isSelected: boolean
  /** The Tab key leads to this row. */
  isReached: boolean
  canOpen: boolean
  actions: { current: RowActions<never> | null }
}) {
  return (
    <tr
      data-index={index}
      aria-rowindex={index + 2}
      aria-selected={isSelected}
      tabIndex={isReached ? 0 : -1}
      onFocus={() => actions.current?.focus(index)}
      onKeyDown={(event) => actions.current?.press(event, index)}
      onClick={(event) => !isControl(event) && actions.current?.open?.(row)}
      className={`h-[41px] border-t border-line outline-offset-[-2px] hover:bg-sunken aria-selected:bg-accent-soft ${canOpen ? 'cursor-pointer' : ''}`}
    >
      <td className="pl-3">
        <input
          type="checkbox"
          aria-label={words.selectRow}
          tabIndex={-1}
          checked={isSelected}
          onChange={() => actions.current?.toggle(row)}
          className="block size-3.5 cursor-pointer accent-(--accent)"
        />
      </td>
      {columns.map(({ id, cell, align, isMinor }) => (
        <td
          key={id}
          className={`max-w-[40vw] truncate px-3 md:max-w-80 ${align === 'right' ? 'text-right tabular-nums' : ''} ${isMinor ? 'hidden md:table-cell' : ''}`}
        >
          {cell(row)}
        </td>
      ))}
    </tr>
  )
})

function LoadingRow({ columns }: { columns: number }) {
  return (
    <tr className="h-[41px] border-t border-line" aria-label={words.loading}>
      <td colSpan={columns + 1} className="px-3">
        <div className="skeleton h-4" />
      </td>
    </tr>
  )
}
