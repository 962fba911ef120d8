import { parseArgs } from 'node:util'
import packageFile from '../package.json' with { type: 'json' }
import { InvalidConfig, readConfig, readExistingConfig } from './config/config.ts'
import { CommandFailed } from './operator/command-failed.ts'
import { DataFolderInUse, PostgresFailed } from './stores/postgres/embedded-postgres.ts'
import { MigrationFailed } from './stores/postgres/migrations.ts'

interface Command {
  usage: string
  text: string
  options?: Record<string, { type: 'string' | 'boolean' }>
  run(options: Record<string, string | undefined>): Promise<void>
}

const defaultUrl = 'http://localhost:8787'

/** The operator's commands. Each is loaded when it is used, so that `token` does not pay for the server. */
const commands: Record<string, Command> = {
  start: {
    usage: 'start',
    text: 'Start the server',
    run: async () => (await import('./operator/start.ts')).start(readConfig()),
  },
  token: {
    usage: `token [--url ${defaultUrl}] | token --email <address> [--org <slug>]`,
    text: 'Print the bearer token of your own sign-in (login). With --email, on the machine of the server: one for anybody',
    options: { url: { type: 'string' }, email: { type: 'string' }, org: { type: 'string' } },
    run: async ({ url, email, org }) => {
      if (email && url) throw new CommandFailed('--url is for the token of your own sign-in, --email makes one here')
      if (!email && !org) return (await import('./operator/login.ts')).printLoginToken(url ?? defaultUrl)
      return (await import('./operator/accounts.ts')).printToken(readExistingConfig(), required('email', email), org)
    },
  },
  login: {
    usage: `login [--url ${defaultUrl}]`,
    text: 'Sign in at a server with the browser, and keep the tokens in ~/.config/inlay/credentials.json',
    options: { url: { type: 'string' } },
    run: async ({ url }) => (await import('./operator/login.ts')).login(url ?? defaultUrl),
  },
  logout: {
    usage: `logout [--url ${defaultUrl}]`,
    text: 'End that sign-in at the server with all that came from it, in the browser too, and remove its tokens',
    options: { url: { type: 'string' } },
    run: async ({ url }) => (await import('./operator/login.ts')).endLogin(url ?? defaultUrl),
  },
  'user add': {
    usage: 'user add --email <address> [--name <name>] [--org <slug> [--role admin|member]]',
    text: 'Add a person, make them a member, and print a link with which they choose a password',
    options: { email: { type: 'string' }, name: { type: 'string' }, org: { type: 'string' }, role: { type: 'string' } },
    run: async ({ email, name, org, role }) =>
      (await import('./operator/accounts.ts')).addUser(readConfig(), required('email', email), { name, org, role }),
  },
  'user list': {
    usage: 'user list [--org <slug>]',
    text: 'List the users, with their roles in organizations',
    options: { org: { type: 'string' } },
    run: async ({ org }) => (await import('./operator/accounts.ts')).printUsers(readExistingConfig(), org),
  },
  'user password': {
    usage: 'user password --email <address>',
    text: 'Print a new link for somebody who forgot their password',
    options: { email: { type: 'string' } },
    run: async ({ email }) =>
      (await import('./operator/accounts.ts')).renewPassword(readExistingConfig(), required('email', email)),
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
      (await import('./operator/accounts.ts')).addOrganization(readConfig(), {
        name: required('name', name),
        admin: required('admin', admin),
        slug,
        plan,
      }),
  },
  'org list': {
    usage: 'org list',
    text: 'List the organizations, with their plan and number of members',
    run: async () => (await import('./operator/accounts.ts')).printOrganizations(readExistingConfig()),
  },
  'key add': {
    usage: 'key add --org <slug> --name <name> [--origins <origin,…>]',
    text: 'Create a publishable key for the widget and print it. --origins are the sites that may use it, such as https://shop.example',
    options: { org: { type: 'string' }, name: { type: 'string' }, origins: { type: 'string' } },
    run: async ({ org, name, origins }) =>
      (await import('./operator/accounts.ts')).addPublishableKey(readExistingConfig(), {
        org: required('org', org),
        name: required('name', name),
        origins,
      }),
  },
  migrate: {
    usage: 'migrate',
    text: 'Bring the database schema up to date, without starting the server',
    run: async () => (await import('./operator/maintenance.ts')).migrateOnly(readConfig()),
  },
  doctor: {
    usage: 'doctor',
    text: 'Check runtime, configuration, stores, disk, clock and sign-in provider, and say what to do',
    run: async () => (await import('./operator/doctor.ts')).examine(),
  },
  'demo usage': {
    usage: 'demo usage',
    text: 'Add ninety days of made-up usage to the organization "demo"; safe to repeat',
    run: async () => (await import('./operator/demo.ts')).addDemoUsage(readExistingConfig()),
  },
  'audit verify': {
    usage: 'audit verify [--org <slug>] [--from <head or file>]',
    text: 'Recompute the audit chains, name the first row that does not fit, and print each head. Keep the output elsewhere: with --from, rows that were cut and organizations that are gone since then are named too',
    options: { org: { type: 'string' }, from: { type: 'string' } },
    run: async ({ org, from }) =>
      (await import('./operator/maintenance.ts')).verifyAudit(readExistingConfig(), { org, from }),
  },
  'secret rotate': {
    usage: 'secret rotate',
    text: 'Seal everything again with the first secret of INLAY_SECRET; safe to repeat',
    run: async () => (await import('./operator/maintenance.ts')).rotateSecret(readExistingConfig()),
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
  'Settings come from the environment: docs/configuration.md',
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
    throw new CommandFailed(`There is no command "${args.join(' ')}".\n\n${help}`)
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
