import { demoUsers } from './accounts/users/demo-users.ts'
import { startDemoExamples } from './console/demo/examples.ts'
import { CommandFailed } from './console/operator/command-failed.ts'
import { explainStores } from './console/operator/stores.ts'
import { type Config, describeUnknownSettings } from './kernel/config/config.ts'
import { type RunningServer, startServer } from './main.ts'

/** The terminal signals npm and the server, and npm forwards its signal, so one keystroke can arrive several times. */
const sameSignalMs = 500

export async function start(config: Config): Promise<void> {
  const started = performance.now()
  for (const text of describeUnknownSettings()) console.error(`inlay: WARNING: ${text}`)
  const starting = startServer(config, { onProgress: (text) => console.log(`${text}…`) })

  let stoppingSince: number | undefined
  const stop = async (signal: string) => {
    if (stoppingSince !== undefined) {
      if (performance.now() - stoppingSince > sameSignalMs) process.exit(1)
      return
    }
    stoppingSince = performance.now()
    console.log(`${signal}: finishing open requests. Send it again to stop immediately.`)
    // Waits for the start to finish: interrupting it would leave PostgreSQL running.
    const server = await starting.catch(() => undefined)
    if (!server) return
    await server.stop()
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop(signal))

  const server = await starting.catch((error) => {
    throw explain(error, config)
  })
  const shopUrl = config.mode === 'development' ? await startDemoExamples(server) : undefined
  if (stoppingSince === undefined) console.log(banner(server, config, (performance.now() - started) / 1000, shopUrl))
}

function explain(error: unknown, config: Config): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    return new CommandFailed(
      `Port ${config.port} is already in use. Stop the program that uses it, or choose another port: PORT=0 npm start picks a free one.`,
    )
  }
  if (code === 'EADDRNOTAVAIL') {
    return new CommandFailed(`INLAY_LISTEN is ${config.listen}, which isn't an address of this computer.`)
  }
  if (code === 'EACCES' && syscall === 'listen') {
    return new CommandFailed(`This user isn't allowed to listen on port ${config.port}. Choose another port with PORT.`)
  }
  return explainStores(error, config)
}

const isOpenDemo = ({ mode, listen }: Config): boolean =>
  mode === 'development' && listen !== 'localhost' && !/^(127\.|::1$)/.test(listen ?? '')

function banner(
  { url, port, setupLink, service }: RunningServer,
  config: Config,
  seconds: number,
  shopUrl: string | undefined,
): string {
  const { model, reason } = service.models.installation()
  const isReal = model && model.source !== 'demo'
  const lines = [
    '',
    `Inlay is ready on ${url}  (${config.mode}, ${seconds.toFixed(1)} s)`,
    '',
    ...(config.publicUrl ? [`  Listens on   port ${port}, plain HTTP`] : []),
    `  Dashboard    ${url}        everything that an administrator sets up and looks at`,
    `  API          ${url}/api        reference: ${url}/api/docs`,
    `  MCP          ${url}/mcp        for any MCP client; it asks you to sign in`,
    ...(shopUrl ? [`  Widget       ${shopUrl}        a demo shop with the widget`] : []),
    `  Health       ${url}/readyz`,
    `  Model        ${model?.name ?? 'none'}        ${isReal ? reason : 'docs/agent.md: how to use a real model'}`,
    `  Data         ${config.databaseUrl ? 'PostgreSQL at DATABASE_URL' : `${config.dataDir} (embedded PostgreSQL)`}${config.redisUrl ? ', Redis' : ''}`,
  ]
  if (config.mode === 'development') {
    lines.push('', '  Demo users:')
    for (const { email, text } of demoUsers) lines.push(`    ${email.padEnd(18)} ${text}`)
    lines.push(
      '',
      '  Try it, in another terminal in this folder:',
      `    curl -s ${url}/api/users/me -H "Authorization: Bearer $(npx inlay token --email admin@demo.test --org demo)"`,
    )
  }
  if (isOpenDemo(config))
    lines.push(
      '',
      `  WARNING: other computers can reach this server, because INLAY_LISTEN is ${config.listen}.`,
      '  This is a development server: anyone who can reach it can sign in as a demo administrator with one click.',
      '  Unset INLAY_LISTEN to accept connections from this computer only.',
    )
  if (setupLink)
    lines.push(
      '',
      '  No user exists yet. To become the first administrator, open this link. It works once, within one day:',
      `    ${setupLink}`,
    )
  return `${lines.join('\n')}\n`
}
