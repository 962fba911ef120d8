import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import * as toolCallContents from './contents.ts'
import * as contract from './contract.ts'
import type { ToolCallRecorder } from './recorder.ts'
import * as toolCalls from './tool-calls.ts'

export const toolCallsRoom: Room<Service & { toolCalls: ToolCallRecorder }> = {
  tags: {
    'Tool calls': 'Who called which tool through the hub, and how the call ended.',
  },
  routes: [
    route(contract.listToolCalls, toolCalls.listToolCalls),
    route(contract.getToolCallSettings, toolCallContents.getToolCallSettings),
    route(contract.updateToolCallSettings, toolCallContents.updateToolCallSettings),
    route(contract.getToolCallContents, toolCalls.getToolCallContents),
  ],
  tools: [],
}
