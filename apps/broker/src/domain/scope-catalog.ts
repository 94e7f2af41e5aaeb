/** A text in the languages that a front end may show it in. */
type Labels = { en_US: string; zh_Hans: string }

/** The template of those who choose none [0-03, 0-08]. */
export const DEFAULT_SCOPE_TEMPLATE = '{launcher_type}_{launcher_id}'

type Option = { value: string; label: Labels }

/** The setting by which a pipeline chooses who shares a sandbox, as a front end draws it [0-02 to 0-05, 0-56]. */
export const SCOPE_TEMPLATE_FIELD = {
  name: 'box-session-id-template',
  label: { en_US: 'Sandbox Scope', zh_Hans: '沙箱作用域' } satisfies Labels,
  description: {
    en_US: 'Determines how sandbox environments are shared. Use variables to control isolation granularity.',
    zh_Hans: '决定沙箱环境的共享方式。使用变量控制隔离粒度。',
  } satisfies Labels,
  type: 'select',
  required: false,
  default: DEFAULT_SCOPE_TEMPLATE,
  options: [
    { value: '{launcher_type}_{launcher_id}', label: { en_US: 'Per chat (Recommended)', zh_Hans: '每个会话(推荐)' } },
    { value: '{launcher_type}_{launcher_id}_{sender_id}', label: { en_US: 'Per user in chat', zh_Hans: '会话中每个用户' } },
    {
      value: '{launcher_type}_{launcher_id}_{conversation_id}',
      label: { en_US: 'Per conversation context', zh_Hans: '每个对话上下文' },
    },
    { value: '{query_id}', label: { en_US: 'Per message (isolated)', zh_Hans: '每条消息(完全隔离)' } },
  ] satisfies Option[],
} as const
