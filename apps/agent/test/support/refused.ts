/** Status and code of a refusal. */
export const refused = async (response: Response): Promise<[status: number, code: string]> => [
  response.status,
  ((await response.json()) as { error: { code: string } }).error.code,
]
