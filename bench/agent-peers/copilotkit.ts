// CopilotKit's runtime with its own agent, which uses the AI SDK. Keeps conversations in memory, and checks nothing. Its
// packages aren't among the dependencies of this project; README.md says how to install them in a folder.
import { createServer, type RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { announce } from '../ticket-peers/announce.ts'

const [, , baseURL = '', folder = ''] = process.argv
const load = createRequire(join(folder, 'package.json'))

const { CopilotRuntime } = load('@copilotkitnext/runtime')
const { createCopilotEndpointExpress } = load('@copilotkitnext/runtime/express')
const { BuiltInAgent } = load('@copilotkitnext/agent')
const { createOpenAI } = load('@ai-sdk/openai')

const model = createOpenAI({ baseURL, apiKey: 'none' }).chat('bench')
const runtime = new CopilotRuntime({ agents: { default: new BuiltInAgent({ model }) } })
const app = load('express')()
app.use(createCopilotEndpointExpress({ runtime, basePath: '/' }))

announce(createServer(app as RequestListener))
