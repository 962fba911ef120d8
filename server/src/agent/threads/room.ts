import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'

import * as contract from './contract.ts'
import { exportThread } from './export.ts'
import { listFeedback, updateFeedback } from './feedback.ts'
import { listThreadMessages } from './messages.ts'
import { getThread, getThreadAnalytics, listEndUserThreads, listThreads, updateThread } from './threads.ts'

export const threadsRoom: Room<Service> = {
  tags: {
    Threads: 'Conversations with the agent. Their contents are hidden unless an administrator makes them visible.',
    Feedback: 'What users think of the agent’s messages.',
  },
  routes: bind(contract, {
    listThreads,
    listEndUserThreads,
    getThreadAnalytics,
    getThread,
    updateThread,
    listThreadMessages,
    exportThread,
    listFeedback,
    updateFeedback,
  }),
  tools: [],
}
