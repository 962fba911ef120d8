import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import { exportThread } from './export.ts'
import { listFeedback, updateFeedback } from './feedback.ts'
import { listThreadMessages } from './messages.ts'
import * as threads from './threads.ts'

export const threadsRoom: Room<Service> = {
  tags: {
    Threads: 'Conversations with the agent. Their contents are hidden unless an administrator makes them visible.',
    Feedback: 'What users think of the agent’s messages.',
  },
  routes: [
    route(contract.listThreads, threads.listThreads),
    route(contract.listEndUserThreads, threads.listEndUserThreads),
    route(contract.getThreadAnalytics, threads.getThreadAnalytics),
    route(contract.getThread, threads.getThread),
    route(contract.updateThread, threads.updateThread),
    route(contract.listThreadMessages, listThreadMessages),
    route(contract.exportThread, exportThread),
    route(contract.listFeedback, listFeedback),
    route(contract.updateFeedback, updateFeedback),
  ],
  tools: [],
}
