// The AI SDK as its documentation shows it: streamText on node:http. Nothing is checked or saved.
import { createServer } from 'node:http'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { streamText } from 'ai'
import { announce } from '../ticket-peers/announce.ts'

const provider = createOpenAICompatible({ name: 'bench', baseURL: process.argv[2] ?? '', includeUsage: true })

announce(
  createServer(async (request, response) => {
    const { messages } = JSON.parse((await request.toArray()).join(''))
    streamText({ model: provider('bench'), messages }).pipeUIMessageStreamToResponse(response)
  }),
)
