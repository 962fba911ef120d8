// Prepares a checkout: installs the locked dependencies, builds the widget and the dashboard and, with --tests, finds or installs the
// programs that the tests start. Plain JavaScript for Node 18 or later, because it installs the pinned runtime itself.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const stampFile = join(root, 'node_modules/.inlay-setup.json')
const partsFile = join(root, 'node_modules/.inlay-test-parts.json')
const pinnedNode = join(root, 'node_modules/.bin/node')
const pathFolders = (process.env.PATH ?? '').split(delimiter).filter(Boolean)
const oldestPostgres = 15

const parts = [
  {
    key: 'postgres',
    name: `PostgreSQL server ${oldestPostgres} or later`,
    find: findPostgres,
    isThere: hasPostgresServer,
    apt: 'postgresql',
    brew: 'postgresql@17',
  },
  {
    key: 'redis',
    name: 'Redis or Valkey server',
    find: () => onPath('redis-server') ?? onPath('valkey-server'),
    isThere: existsSync,
    apt: 'redis-server',
    brew: 'redis',
  },
  {
    key: 'curl',
    name: 'curl',
    find: () => onPath('curl'),
    isThere: existsSync,
    apt: 'curl',
    brew: 'curl',
  },
  {
    key: 'chromium',
    name: 'Chromium or Chrome',
    find: findChromium,
    isThere: existsSync,
    apt: 'chromium-headless-shell',
    aptElsewhere: 'chromium',
    brew: '--cask chromium',
    otherwise: 'npx playwright-core install --with-deps chromium (Ubuntu, which only has a snap)',
  },
]

installDependencies()
build('widget', ['widget/src', 'protocol/src'], ['widget/build.ts'], ['widget/build.ts'])
build(
  'dashboard',
  ['dashboard/src', 'client/src'],
  ['dashboard/index.html', 'dashboard/reference.html', 'dashboard/vite.config.ts'],
  ['node_modules/vite/bin/vite.js', 'build', 'dashboard'],
)
if (process.argv.includes('--tests')) prepareTestParts()

function installDependencies() {
  const wanted = dependencyFingerprint()
  if (readJson(stampFile).installed === wanted && existsSync(pinnedNode)) return
  console.log('Installing dependencies from the lock file (about a minute the first time)…')
  // The stamp covers dev dependencies, which npm skips under NODE_ENV=production. Warnings are hidden, because npm
  // would warn that packages don't support the Node it runs on; they run on the pinned one.
  if (!npm('ci', '--include=dev', '--loglevel=error')) {
    fail(
      'Could not install the dependencies; see the npm error above. The first run needs access to the npm registry.',
      'To retry, run the same command again.',
    )
  }
  verifyPinnedNode()
  writeJson(stampFile, { installed: wanted })
}

function dependencyFingerprint() {
  const lock = readFileSync(join(root, 'package-lock.json'))
  return createHash('sha256').update(lock).update(`${process.platform} ${process.arch}`).digest('hex')
}

function npm(...args) {
  const { npm_execpath: cli, npm_node_execpath: node = process.execPath } = process.env
  // Under npm, our own Node may be the pinned one, which `npm ci` deletes; npm's Node stays.
  return cli?.endsWith('npm-cli.js') ? run(node, [cli, ...args]) : run('npm', args)
}

function verifyPinnedNode() {
  const pinned = readJson(join(root, 'package.json')).dependencies.node
  const { stdout, stderr, error } = spawnSync(pinnedNode, ['--version'], { encoding: 'utf8' })
  if (stdout?.startsWith(`v${pinned.split('.')[0]}.`)) return
  fail(
    `The pinned runtime, Node ${pinned}, doesn't run: ${(stdout || stderr || error?.message || 'no output').trim()}`,
    'The npm package `node` provides it; its install script downloads the binary for this platform. On Linux, it needs',
    'glibc, not musl. If `npm config get ignore-scripts` prints true, put npm_config_ignore_scripts=false in front of the',
    'command and run it again.',
  )
}

/** Builds what browsers load, if its sources have changed. */
function build(name, folders, others, command) {
  const stamp = join(root, name, 'dist/.built.json')
  const list = (folder) => readdirSync(join(root, folder), { recursive: true }).map((file) => `${folder}/${file}`)
  const files = [...folders.flatMap(list), ...others].filter((file) => /\.\w+$/.test(file))
  const hash = createHash('sha256').update(dependencyFingerprint())
  for (const file of files.sort()) hash.update(file).update(readFileSync(join(root, file)))
  const wanted = hash.digest('hex')
  if (readJson(stamp).built === wanted) return
  // A test runner sets it to something else, and Vite would take React's development build.
  const env = { ...process.env, NODE_ENV: 'production' }
  if (!run(pinnedNode, command, env)) fail(`Could not build the ${name}; see the error above.`)
  writeJson(stamp, { built: wanted })
}

function prepareTestParts() {
  const known = readJson(partsFile)
  if (parts.every((part) => known[part.key] && part.isThere(known[part.key]))) return
  let found = findParts()
  const missing = () => parts.filter((part) => !found[part.key])
  if (missing().length > 0 && process.getuid?.() === 0 && onPath('apt-get')) {
    aptInstall(missing().map((part) => part.apt))
    found = findParts()
    const others = missing().flatMap((part) => part.aptElsewhere ?? [])
    if (others.length > 0) aptInstall(others)
    found = findParts()
  }
  if (missing().length > 0) fail('The tests need programs that this machine lacks:', ...missing().map(howToGet))
  writeJson(partsFile, found)
}

function findParts() {
  return Object.fromEntries(parts.map((part) => [part.key, part.find()]))
}

function aptInstall(packages) {
  console.log(`Installing what the tests need: ${packages.join(', ')}…`)
  const isService = (name) => existsSync(`/etc/init.d/${name}`)
  const newPackages = packages.filter((name) => !isService(name))
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  // One by one, because a package that this system doesn't have would fail the others.
  const install = (name) => run('apt-get', ['install', '-y', '--no-install-recommends', name], env)
  const failed = packages.filter((name) => !install(name))
  if (failed.length > 0) {
    console.log('Refreshing the package lists and retrying…')
    run('apt-get', ['update'], env)
    failed.forEach(install)
  }
  // Debian starts the services that it installs; the tests start their own on private ports.
  for (const name of newPackages.filter(isService)) run('service', [name, 'stop'])
}

function howToGet({ name, apt, brew, otherwise }) {
  const systems = otherwise ? 'Debian 12 or later' : 'Debian 12, Ubuntu 24.04 or later'
  const ways = [`sudo apt-get install ${apt} (${systems})`, `brew install ${brew} (macOS)`, otherwise]
  return `- ${name}: ${ways.filter(Boolean).join(', ')}`
}

function findPostgres() {
  const homebrew = ['/opt/homebrew/opt', '/usr/local/opt'].flatMap((dir) => versionedFolders(dir, /^postgresql@(\d+)$/))
  const folders = [...pathFolders, ...versionedFolders('/usr/lib/postgresql', /^(\d+)$/), ...homebrew]
  return folders.find((dir) => hasPostgresServer(dir) && postgresVersion(dir) >= oldestPostgres)
}

function versionedFolders(parent, pattern) {
  const version = (name) => Number(pattern.exec(name)?.[1])
  const names = existsSync(parent) ? readdirSync(parent).filter((name) => pattern.test(name)) : []
  return names.sort((a, b) => version(b) - version(a)).map((name) => join(parent, name, 'bin'))
}

function hasPostgresServer(dir) {
  return existsSync(join(dir, 'initdb')) && existsSync(join(dir, 'postgres'))
}

function postgresVersion(dir) {
  const { stdout } = spawnSync(join(dir, 'postgres'), ['--version'], { encoding: 'utf8' })
  return Number(/PostgreSQL\) (\d+)/.exec(stdout ?? '')?.[1])
}

/**
 * Prefers the browser without a window, which takes less than half the CPU time for a page. Checks that the program
 * runs, because Ubuntu has a placeholder command that only tells how to install the snap.
 */
function findChromium() {
  const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']
  const mac = ['Chromium', 'Google Chrome'].map((name) => `/Applications/${name}.app/Contents/MacOS/${name}`)
  const files = [...names.map(onPath), ...mac.filter(existsSync), playwrightChromium()]
  return files.find((file) => file && spawnSync(file, ['--version']).status === 0)
}

function playwrightChromium() {
  const print = `console.log(require('playwright-core').chromium.executablePath())`
  return spawnSync(pinnedNode, ['-e', print], { cwd: root, encoding: 'utf8' }).stdout?.trim()
}

function onPath(command) {
  return pathFolders.map((dir) => join(dir, command)).find((file) => existsSync(file))
}

function run(command, args, env = process.env) {
  return spawnSync(command, args, { cwd: root, env, stdio: 'inherit' }).status === 0
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) ?? {}
  } catch {
    return {}
  }
}

function writeJson(file, value) {
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`)
}

function fail(...lines) {
  console.error(`\n${lines.join('\n')}`)
  process.exit(1)
}
