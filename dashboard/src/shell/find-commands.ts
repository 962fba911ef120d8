/** Finds commands whose name contains every word, best first: those that begin with what was typed. */
export function findCommands<Named extends { name: string; group: string }>(commands: Named[], typed: string): Named[] {
  const wanted = typed.trim().toLowerCase().split(/\s+/)
  const matches = commands.filter(({ name, group }) =>
    wanted.every((word) => `${name} ${group}`.toLowerCase().includes(word)),
  )
  const begins = ({ name }: Named) => name.toLowerCase().startsWith(typed.trim().toLowerCase())
  return [...matches.filter(begins), ...matches.filter((command) => !begins(command))]
}
