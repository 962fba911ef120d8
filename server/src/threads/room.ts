import { route } from '../foundation/operation.ts'
import type { Room } from '../foundation/room.ts'
import type { Service } from '../foundation/service.ts'

import * as contract from './contract.ts'
import * as threads from './threads.ts'

export const threadsRoom: Room<Service> = {
  tags: {
    Threads: 'Metadata of conversations with the agent, without the messages.',
  },
  routes: [
    route(contract.listThreads, threads.listThreads),
    route(contract.listEndUserThreads, threads.listEndUserThreads),
    route(contract.getThreadAnalytics, threads.getThreadAnalytics),
    route(contract.getThread, threads.getThread),
    route(contract.updateThread, threads.updateThread),
  ],
  tools: [],
}
