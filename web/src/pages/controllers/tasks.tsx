import { answer, api } from "../../api/client";
import { useChange } from "../../api/queries";
import type { SchemaController as Controller } from "../../api/schema";
import { Confirm } from "../../parts/confirm";

export type Task = { verb: "Drain" | "Resume" | "Remove"; controller: Controller };

/** Asks before a controller is drained, resumed or removed. */
export function TaskDialog({ task: { verb, controller }, onClose }: { task: Task; onClose: () => void }) {
  const { number, name, state } = controller;
  const path = { number: `${number}` };
  const change = useChange({
    run: async () => {
      if (verb === "Drain") await answer(api.POST("/api/v1/controllers/{number}/drain", { params: { path } }));
      else if (verb === "Resume") await answer(api.POST("/api/v1/controllers/{number}/resume", { params: { path } }));
      else await answer(api.DELETE("/api/v1/controllers/{number}", { params: { path } }));
    },
    done: () => DONE[verb](number, state),
    then: onClose,
  });
  return (
    <Confirm opened onClose={onClose} title={`${verb} controller ${number}?`} verb={verb} busy={change.isPending} error={change.error} onConfirm={() => change.mutate(undefined)}>
      {verb === "Drain" && state === "home" && <>Controller {number} ({name}) hands the array over to another controller: hosts are asked to log out, and go on there. It is refused if no other controller can serve them. This page goes to the other controller, too.</>}
      {verb === "Drain" && state !== "home" && <>Controller {number} ({name}) becomes the home only if no other controller can, also after it is started again, until it is resumed.</>}
      {verb === "Resume" && <>Controller {number} ({name}) may become the home again. The array stays where it is.</>}
      {verb === "Remove" && <>Controller {number} ({name}) is forgotten, and the alert about its loss ends. If it is started again, it takes part again.</>}
    </Confirm>
  );
}

const DONE: Record<Task["verb"], (number: number, state: Controller["state"]) => string> = {
  Drain: (number, state) => (state === "home" ? `Controller ${number} hands the array over.` : `Controller ${number} is drained.`),
  Resume: (number) => `Controller ${number} may become the home again.`,
  Remove: (number) => `Controller ${number} is removed.`,
};
