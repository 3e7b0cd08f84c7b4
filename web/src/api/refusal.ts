import type { SchemaProblem as Problem } from "./schema";

/** An error answer of the array or of the connection to it. The message says what to do. */
export class Refusal extends Error {
  constructor(
    readonly title: string,
    readonly detail: string,
    readonly status: number,
    readonly kind: string,
    /** In the answer of a standby: the URL of the home. */
    readonly home: string | undefined = undefined,
  ) {
    super(detail);
    this.name = "Refusal";
  }

  /** The array takes connections but does not answer. */
  static silent(): Refusal {
    return new Refusal("The array is not responding", "The server takes connections, but ashlard does not answer. Check the load of the server, and the service: systemctl status ashlard. The page resumes by itself.", 0, "silent");
  }

  static of(error: unknown): Refusal {
    if (error instanceof Refusal) return error;
    if (isProblem(error)) return new Refusal(error.title, error.detail, error.status, error.kind, error.home ?? undefined);
    if (error instanceof TypeError) {
      const detail = "Check that ashlard runs and that this machine reaches it. The page resumes by itself.";
      return new Refusal("The array can't be reached", detail, 0, "unreachable");
    }
    const detail = error instanceof Error ? error.message : "The answer has an unknown format.";
    return new Refusal("Something went wrong", detail, 0, "failed");
  }
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "detail" in value && "title" in value && "status" in value;
}
