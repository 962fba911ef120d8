/** Every way in which someone gets access, and everything that ends it. docs/security.md shows which tests prove it. */
interface Table {
  who: 'a person' | 'a caller' | 'an end user'
  title: string
  ways: readonly string[]
  ends: readonly string[]
  /** Why a cell can't occur, by way and end. `*` stands for all ways. */
  inapplicable: Record<string, Record<string, string>>
  /** Runs every cell whose way and end it knows. Other cells need a test with the cell's title. */
  walk: { file: string; ways: readonly string[]; ends: readonly string[] }
}

const bySignOn = ['single sign-on and an invitation', 'automatic join'] as const
const byOther = [
  'a mailed invitation',
  'a shown invitation link',
  'the installation’s provider and an invitation',
  'a directory’s group, in a proven domain',
  'a directory’s invitation',
  'founding the organization',
  'the operator’s command',
] as const
export const peopleWays = [...byOther, ...bySignOn] as const
export const membershipEnds = [
  'leaving',
  'removal by an administrator',
  'deactivation in the directory',
  'deletion in the directory',
  'a rename and deactivation in one request',
  'a rename and a later deactivation',
  'deletion of the organization',
] as const
export const signOnEnds = [
  'removal of the organization’s provider',
  'removal of the domain',
  'the end of single sign-on in the plan',
] as const

const ownSignIn = 'They don’t sign in at the organization’s provider.'

const people: Table = {
  who: 'a person',
  title: 'People',
  ways: peopleWays,
  ends: [...membershipEnds, ...signOnEnds],
  inapplicable: Object.fromEntries(
    byOther.map((way) => [way, Object.fromEntries(signOnEnds.map((end) => [end, ownSignIn]))]),
  ),
  walk: { file: 'server/test/access-walk.test.ts', ways: peopleWays, ends: [...membershipEnds, ...signOnEnds] },
}

const signInWays = [
  'a password',
  'a passkey',
  'a link to set the password',
  'the installation’s provider',
  'single sign-on',
] as const
export const callerWays = [...signInWays, 'the command inlay token', 'a service account’s key'] as const
export const callerEnds = [
  'removal by an administrator',
  'deactivation in the directory',
  'deletion of the organization',
  'signing out',
  'a password reset',
  'removal of the passkey, at the next sign-in',
  ...signOnEnds,
  'deletion of the service account',
  'a new key',
  'its expiry',
] as const

const notMember = 'A service account isn’t a member.'
const noAccount = 'It isn’t a service account’s key.'
const otherWay = 'It is another way to sign in.'
const noPasskey = { 'removal of the passkey, at the next sign-in': otherWay }
const noSignOn = Object.fromEntries(signOnEnds.map((end) => [end, otherWay]))
const noPassword = { 'a password reset': 'Their password is the provider’s.' }
const ofSignIn = {
  'deletion of the service account': noAccount,
  'a new key': noAccount,
  'its expiry': 'Clients renew their tokens until something else ends the sign-in.',
}

const callers: Table = {
  who: 'a caller',
  title: 'Sign-ins, tokens and keys',
  ways: callerWays,
  ends: callerEnds,
  inapplicable: {
    'a password': { ...ofSignIn, ...noPasskey, ...noSignOn },
    'a link to set the password': { ...ofSignIn, ...noPasskey, ...noSignOn },
    'a passkey': { ...ofSignIn, ...noSignOn },
    'the installation’s provider': { ...ofSignIn, ...noPasskey, ...noSignOn, ...noPassword },
    'single sign-on': { ...ofSignIn, ...noPasskey, ...noPassword },
    'the command inlay token': {
      ...noPasskey,
      ...noSignOn,
      'a password reset': 'The operator issued the token without a sign-in.',
      'deletion of the service account': noAccount,
      'a new key': noAccount,
    },
    'a service account’s key': {
      ...noPasskey,
      ...noSignOn,
      'removal by an administrator': notMember,
      'deactivation in the directory': notMember,
      'signing out': 'It has no session.',
      'a password reset': 'It has no password.',
    },
  },
  walk: { file: 'server/test/caller-access-walk.test.ts', ways: callerWays, ends: callerEnds },
}

export const endUserWays = ['a widget ID token', 'an ID token over AG-UI', 'a preview in the dashboard'] as const
export const endUserEnds = [
  'deactivation in the directory',
  'deletion in the directory',
  'a rename and deactivation in one request',
  'a rename and a later deactivation',
  'erasure',
  'revocation of the key',
  'a change of the identity provider',
  'the removal of the member who previews',
] as const

const endUsers: Table = {
  who: 'an end user',
  title: 'End users',
  ways: endUserWays,
  ends: [...endUserEnds, 'a merge with the end user they were before'],
  inapplicable: {
    'a widget ID token': { 'the removal of the member who previews': 'Their access doesn’t depend on a member.' },
    'an ID token over AG-UI': { 'the removal of the member who previews': 'Their access doesn’t depend on a member.' },
    'a preview in the dashboard': {
      'a change of the identity provider': 'The member’s sign-in vouches for them, not the provider.',
      'a merge with the end user they were before': 'Only end users of a provider are carried over.',
    },
  },
  walk: { file: 'server/test/end-user-access-walk.test.ts', ways: endUserWays, ends: endUserEnds },
}

export const accessTables = { people, callers, endUsers } satisfies Record<string, Table>
const tables: readonly Table[] = Object.values(accessTables)

export const titleOf = (who: Table['who'], way: string, end: string): string =>
  `${who} who came by ${way} loses access by ${end}`

const titlePattern = /(a person|a caller|an end user) who came by (.+?) loses access by ([^'"`\n]+)/g

/** Why a cell is empty, if it can't occur. */
export const reasonAgainst = ({ inapplicable }: Table, way: string, end: string): string | undefined =>
  inapplicable[way]?.[end] ?? inapplicable['*']?.[end]

/** How a walk makes its tests. With another loop, the table could show tests that don't exist. */
export const walkLoop = `
for (const [way, end] of cellsOf(table)) {
  test(titleOf(table.who, way, end), async () => {`

/** The cells that a walk runs. */
export const cellsOf = (table: Table): [way: string, end: string][] =>
  table.walk.ways.flatMap((way) =>
    table.walk.ends
      .filter((end) => reasonAgainst(table, way, end) === undefined)
      .map((end): [string, string] => [way, end]),
  )

/**
 * The tables as Markdown, from the titles in the text of all test files. Fails if a cell has neither a test nor a reason,
 * or a title names a way or an end that isn't in a table.
 */
export function describeAccess(testFiles: Readonly<Record<string, string>>): string {
  const tested = new Map<string, string>()
  for (const table of tables) {
    const walk = testFiles[table.walk.file]
    if (walk === undefined) throw new Error(`There is no ${table.walk.file}`)
    if (!walk.includes(walkLoop)) throw new Error(`${table.walk.file} doesn’t test all its cells with:\n${walkLoop}`)
    for (const [way, end] of cellsOf(table)) tested.set(titleOf(table.who, way, end), table.walk.file)
  }
  for (const [file, text] of Object.entries(testFiles)) {
    for (const [title, who, way = '', end = ''] of text.matchAll(titlePattern)) {
      if (way.includes('$') || way.startsWith('%')) continue
      const table = tables.find((one) => one.who === who)
      if (!table?.ways.includes(way) || !table.ends.includes(end))
        throw new Error(`Unknown way or end in ${file}: ${title}`)
      tested.set(title, file)
    }
  }
  return tables.map((table) => describeTable(table, tested)).join('\n\n')
}

function describeTable(table: Table, tested: ReadonlyMap<string, string>): string {
  const reasons: string[] = []
  const files: string[] = []
  const numbered = (list: string[], text: string) =>
    (list.includes(text) ? list.indexOf(text) : list.push(text) - 1) + 1
  const cell = (way: string, end: string): string => {
    const title = titleOf(table.who, way, end)
    const reason = reasonAgainst(table, way, end)
    const file = tested.get(title)
    if (file && reason) throw new Error(`This cell has a test and a reason against it: ${title}`)
    if (file) return `T${numbered(files, file)}`
    if (reason) return `– (${numbered(reasons, reason)})`
    throw new Error(`No test has the title “${title}”. Add one, or a reason in server/test/access-matrix.ts.`)
  }
  const rows = table.ends.map((end) => `| ${end} | ${table.ways.map((way) => cell(way, end)).join(' | ')} |`)
  const legend = [
    ...files.map((file, n) => `- T${n + 1}: \`${file}\``),
    ...reasons.map((reason, n) => `- (${n + 1}): ${reason}`),
  ]
  return [
    `### ${table.title}`,
    '',
    `| ends by ↓, came by → | ${table.ways.join(' | ')} |`,
    `|${'---|'.repeat(table.ways.length + 1)}`,
    ...rows,
    '',
    ...legend,
  ].join('\n')
}
