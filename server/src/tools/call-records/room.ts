import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { getToolCallSettings, updateToolCallSettings } from './contents.ts'
import * as contract from './contract.ts'
import type { ToolCallRecorder } from './recorder.ts'
import { getToolCallContents, listToolCalls } from './tool-calls.ts'

export const toolCallsRoom: Room<Service & { toolCalls: ToolCallRecorder }> = {
  tags: {
    'Tool calls': 'Who called which tool through the hub, and how the call ended.',
  },
  routes: bind(contract, { listToolCalls, getToolCallSettings, updateToolCallSettings, getToolCallContents }),
  tools: [],
}
