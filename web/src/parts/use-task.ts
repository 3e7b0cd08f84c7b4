import { useState } from "react";

/** The open dialog of a page: one at a time. */
export function useTask<Task extends string>(): {
  start: (task: Task) => void;
  window: (of: Task) => { opened: boolean; onClose: () => void };
} {
  const [task, setTask] = useState<Task>();
  return { start: setTask, window: (of) => ({ opened: task === of, onClose: () => setTask(undefined) }) };
}
