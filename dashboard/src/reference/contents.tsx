import { useState } from 'react'

export interface Specification {
  info: { title: string; version: string; description: string }
  tags: { name: string }[]
  paths: Record<string, Record<string, { operationId: string; summary: string; tags: string[] }>>
}

/** Every operation by tag, with a search. Narrow screens have the list of operations itself. */
export function Contents({ specification, onOpen }: { specification: Specification; onOpen: (hash: string) => void }) {
  const [search, setSearch] = useState('')
  const wanted = search.toLowerCase().split(/\s+/).filter(Boolean)
  const operations = Object.entries(specification.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ ...operation, method, path })),
  )
  const found = operations.filter(({ summary, path, method, operationId, tags }) => {
    const text = [summary, path, method, operationId, ...tags].join(' ').toLowerCase()
    return wanted.every((word) => text.includes(word))
  })
  const groups = specification.tags
    .map(({ name }) => ({ name, operations: found.filter(({ tags }) => tags.includes(name)) }))
    .filter((group) => group.operations.length > 0)
  return (
    <nav
      aria-label="Operations"
      className="sticky top-0 hidden max-h-dvh w-64 shrink-0 overflow-y-auto border-r border-line px-4 py-5 lg:block"
    >
      <input
        type="search"
        className="input mb-4"
        aria-label="Search operations"
        placeholder="Search operations"
        value={search}
        onChange={(event) => setSearch(event.target.value)}
      />
      <p role="status" className="sr-only">
        {wanted.length > 0 && `${found.length} ${found.length === 1 ? 'operation' : 'operations'} found`}
      </p>
      {groups.length === 0 && <p className="text-muted">No operation matches “{search}”.</p>}
      {groups.map((group) => (
        <div key={group.name} className="mb-4">
          <h2 className="mb-1 text-sm font-semibold">{group.name}</h2>
          <ul>
            {group.operations.map(({ operationId, summary }) => {
              const hash = `#/${encodeURIComponent(group.name)}/${encodeURIComponent(operationId)}`
              return (
                <li key={operationId}>
                  <a
                    href={hash}
                    onClick={() => onOpen(hash)}
                    className="block rounded-control px-2 py-1 text-sm text-muted hover:bg-sunken hover:text-text"
                  >
                    {summary}
                  </a>
                </li>
              )
            })}
          </ul>
        </div>
      ))}
    </nav>
  )
}
