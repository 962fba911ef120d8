import { parseArgs } from 'node:util'
import packageFile from '../package.json' with { type: 'json' }
import { CommandFailed } from './console/operator/command-failed.ts'
import { InvalidConfig, readConfig, readExistingConfig } from './kernel/config/config.ts'
import { DataFolderInUse, PostgresFailed } from './kernel/stores/postgres/embedded-postgres.ts'
import { MigrationFailed } from './kernel/stores/postgres/migrations.ts'

interface Command {
  usage: string
  text: string
  options?: Record<string, { type: 'string' | 'boolean' }>
  run(options: Record<string, string | undefined>): Promise<void>
}

const defaultUrl = 'http://localhost:8787'

/** The operator's commands. Each is imported on use, so that `token` doesn't load the server. */
const commands: Record<string, Command> = {
  start: {
    usage: 'start',
    text: 'Start the server',
    run: async () => (await import('./start.ts')).start(readConfig()),
  },
  token: {
    usage: `token [--url ${defaultUrl}] | token --email <address> [--org <slug>]`,
    text: 'Print the access token of your sign-in (see login). With --email, run on the server, print one for any user',
    options: { url: { type: 'string' }, email: { type: 'string' }, org: { type: 'string' } },
    run: async ({ url, email, org }) => {
      if (email && url)
        throw new CommandFailed(
          'Use either --url, for the token of your sign-in, or --email, for a token issued on this machine',
        )
      if (!email && !org) return (await import('./console/operator/login.ts')).printLoginToken(url ?? defaultUrl)
      return (await import('./console/operator/accounts.ts')).printToken(
        readExistingConfig(),
        required('email', email),
        org,
      )
    },
  },
  login: {
    usage: `login [--url ${defaultUrl}]`,
    text: 'Sign in to a server in your browser. The tokens are stored in ~/.config/inlay/credentials.json',
    options: { url: { type: 'string' } },
    run: async ({ url }) => (await import('./console/operator/login.ts')).login(url ?? defaultUrl),
  },
  logout: {
    usage: `logout [--url ${defaultUrl}]`,
    text: 'Sign out of a server: end the session, including in the browser, and delete the stored tokens',
    options: { url: { type: 'string' } },
    run: async ({ url }) => (await import('./console/operator/login.ts')).endLogin(url ?? defaultUrl),
  },
  'user add': {
    usage: 'user add --email <address> [--name <name>] [--org <slug> [--role admin|member]]',
    text: 'Add a user, optionally to an organization, and print a link to set their password',
    options: { email: { type: 'string' }, name: { type: 'string' }, org: { type: 'string' }, role: { type: 'string' } },
    run: async ({ email, name, org, role }) =>
      (await import('./console/operator/accounts.ts')).addUser(readConfig(), required('email', email), {
        name,
        org,
        role,
      }),
  },
  'user list': {
    usage: 'user list [--org <slug>]',
    text: 'List users and their roles in organizations',
    options: { org: { type: 'string' } },
    run: async ({ org }) => (await import('./console/operator/accounts.ts')).printUsers(readExistingConfig(), org),
  },
  'user password': {
    usage: 'user password --email <address>',
    text: 'Print a link for a user to reset their password',
    options: { email: { type: 'string' } },
    run: async ({ email }) =>
      (await import('./console/operator/accounts.ts')).renewPassword(readExistingConfig(), required('email', email)),
  },
  'user second-factor-off': {
    usage: 'user second-factor-off --email <address> [--passkeys]',
    text: 'Turn off the second factor of a user who lost their authenticator app and recovery codes; with --passkeys, also remove their passkeys',
    options: { email: { type: 'string' }, passkeys: { type: 'boolean' } },
    run: async ({ email, passkeys }) =>
      (await import('./console/operator/accounts.ts')).turnOffSecondFactor(
        readExistingConfig(),
        required('email', email),
        {
          passkeys: passkeys !== undefined,
        },
      ),
  },
  'org add': {
    usage: 'org add --name <name> --admin <address> [--slug <slug>] [--plan <plan>]',
    text: 'Add an organization',
    options: {
      name: { type: 'string' },
      admin: { type: 'string' },
      slug: { type: 'string' },
      plan: { type: 'string' },
    },
    run: async ({ name, admin, slug, plan }) =>
      (await import('./console/operator/accounts.ts')).addOrganization(readConfig(), {
        name: required('name', name),
        admin: required('admin', admin),
        slug,
        plan,
      }),
  },
  'org list': {
    usage: 'org list',
    text: 'List organizations with their plan and number of members',
    run: async () => (await import('./console/operator/accounts.ts')).printOrganizations(readExistingConfig()),
  },
  'org deleted': {
    usage: 'org deleted [--id <organization>]',
    text: 'List the receipts of deleted organizations: when each was deleted and erased, and how many rows. --id finds the one of an organization',
    options: { id: { type: 'string' } },
    run: async ({ id }) => (await import('./console/operator/accounts.ts')).printErasures(readExistingConfig(), id),
  },
  'key add': {
    usage: 'key add --org <slug> --name <name> [--origins <origin,…>]',
    text: 'Create a publishable key for the widget and print it. --origins lists the sites that may use it, such as https://shop.example',
    options: { org: { type: 'string' }, name: { type: 'string' }, origins: { type: 'string' } },
    run: async ({ org, name, origins }) =>
      (await import('./console/operator/accounts.ts')).addPublishableKey(readExistingConfig(), {
        org: required('org', org),
        name: required('name', name),
        origins,
      }),
  },
  migrate: {
    usage: 'migrate',
    text: 'Migrate the database schema without starting the server',
    run: async () => (await import('./console/operator/maintenance.ts')).migrateOnly(readConfig()),
  },
  convert: {
    usage: 'convert',
    text: 'Convert a database from before 0.1.0, once: docs/migrations.md. Stop every server first',
    run: async () => (await import('../conversion/convert.ts')).convertDatabase(readExistingConfig()),
  },
  doctor: {
    usage: 'doctor',
    text: 'Check runtime, configuration, stores, disk, clock, sign-in provider and model, and suggest fixes',
    run: async () => (await import('./console/operator/doctor.ts')).examine(),
  },
  'demo usage': {
    usage: 'demo usage',
    text: 'Add 90 days of sample usage to the organization "demo"; safe to repeat',
    run: async () => (await import('./console/operator/demo.ts')).addDemoUsage(readExistingConfig()),
  },
  'audit verify': {
    usage: 'audit verify [--org <slug>] [--from <head or file>]',
    text: 'Verify the audit chains, report the first invalid row of each, and print each head. Store the output elsewhere: with --from, the command also reports rows and organizations that were deleted since then',
    options: { org: { type: 'string' }, from: { type: 'string' } },
    run: async ({ org, from }) =>
      (await import('./console/operator/maintenance.ts')).verifyAudit(readExistingConfig(), { org, from }),
  },
  'secret rotate': {
    usage: 'secret rotate',
    text: 'Re-encrypt everything with the first secret of INLAY_SECRET; safe to repeat',
    run: async () => (await import('./console/operator/maintenance.ts')).rotateSecret(readExistingConfig()),
  },
}

const help = [
  'Usage: npx inlay <command>',
  '',
  ...Object.values(commands).flatMap(({ usage, text }) => [`  ${usage}`, `      ${text}`]),
  '',
  '  --version',
  '      Print the version',
  '',
  'Inlay reads its settings from environment variables: docs/configuration.md',
].join('\n')

try {
  await main(process.argv.slice(2))
} catch (error) {
  const isExplained = [CommandFailed, InvalidConfig, DataFolderInUse, PostgresFailed, MigrationFailed].some(
    (kind) => error instanceof kind,
  )
  console.error(isExplained ? `inlay: ${(error as Error).message}` : error)
  process.exitCode = 1
}

async function main(args: string[]): Promise<void> {
  const name = Object.keys(commands).find((words) => args.slice(0, words.split(' ').length).join(' ') === words)
  const command = name && commands[name]
  if (!command) {
    const isAsking = args.length === 0 || ['help', '--help', '-h'].includes(args[0] ?? '')
    if (isAsking) return console.log(help)
    if (['version', '--version', '-v'].includes(args[0] ?? '')) return console.log(packageFile.version)
    throw new CommandFailed(`Unknown command "${args.join(' ')}".\n\n${help}`)
  }
  const rest = args.slice(name.split(' ').length)
  if (rest.includes('--help') || rest.includes('-h'))
    return console.log(`npx inlay ${command.usage}\n\n${command.text}`)
  let options: Record<string, string | undefined>
  try {
    options = parseArgs({ args: rest, options: command.options ?? {}, strict: true }).values as typeof options
  } catch (cause) {
    throw new CommandFailed(`${(cause as Error).message}\nUsage: npx inlay ${command.usage}`, { cause })
  }
  await command.run(options)
}

function required(name: string, value: string | undefined): string {
  if (!value) throw new CommandFailed(`--${name} is missing`)
  return value
}
