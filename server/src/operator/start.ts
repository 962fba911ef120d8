import type { Config } from '../config.ts'
import { demoPeople } from '../demo/demo.ts'
import { type RunningServer, startServer } from '../main.ts'
import { CommandFailed } from './command-failed.ts'

export async function start(config: Config): Promise<void> {
  const started = performance.now()
  const server = await startServer(config, { onProgress: (text) => console.log(`${text}…`) }).catch((error) => {
    throw explain(error, config)
  })
  console.log(banner(server, config, (performance.now() - started) / 1000))

  let isStopping = false
  const stop = async (signal: string) => {
    // A second signal means now.
    if (isStopping) process.exit(1)
    isStopping = true
    console.log(`${signal}: finishing what is under way`)
    await server.stop()
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop(signal))
}

function explain(error: unknown, config: Config): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE') {
    return new CommandFailed(
      `Port ${config.port} is taken. Stop what uses it, or choose another: PORT=0 npm start picks a free one.`,
    )
  }
  if (code === 'EACCES')
    return new CommandFailed(`Not allowed to use port ${config.port} or the folder ${config.dataDir}`)
  return error
}

function banner({ url, setupLink }: RunningServer, config: Config, seconds: number): string {
  const lines = [
    '',
    `Inlay is ready on ${url}  (${config.mode}, ${seconds.toFixed(1)} s)`,
    '',
    `  API          ${url}/api        reference: ${url}/api/docs`,
    `  Health       ${url}/readyz`,
    `  Data         ${config.databaseUrl ? 'PostgreSQL of DATABASE_URL' : `${config.dataDir} (embedded PostgreSQL)`}${config.redisUrl ? ', Redis' : ''}`,
  ]
  if (config.mode === 'development') {
    lines.push('', '  Who can sign in:')
    for (const { email, text } of demoPeople) lines.push(`    ${email.padEnd(18)} ${text}`)
    lines.push(
      '',
      '  Try it, in another terminal in this folder:',
      `    curl -s ${url}/api/users/me -H "Authorization: Bearer $(npx inlay token --email admin@demo.test --org demo)"`,
    )
  }
  if (setupLink)
    lines.push(
      '',
      '  Nobody can sign in yet. Open this link once, within a day, to become the first administrator:',
      `    ${setupLink}`,
    )
  return `${lines.join('\n')}\n`
}
