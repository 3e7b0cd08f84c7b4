/** What pages show, by name. Each query is refreshed while somebody looks at it. */
import { keepPreviousData, queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { notifications } from "@mantine/notifications";
import { answer, api, type Refusal } from "./client";

const LIVE = { refetchInterval: 2_000, placeholderData: keepPreviousData };
const LIST = { refetchInterval: 5_000, placeholderData: keepPreviousData };

export const array = () =>
  queryOptions({ queryKey: ["array"], queryFn: ({ signal }) => answer(api.GET("/api/v1/array", { signal })), ...LIVE });

export const volumes = () =>
  queryOptions({
    queryKey: ["volumes"],
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/volumes", { signal }))).items,
    ...LIST,
  });

export const volume = (name: string) =>
  queryOptions({
    queryKey: ["volumes", name],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/volumes/{name}", { params: { path: { name } }, signal })),
    refetchInterval: 5_000,
  });

export const hosts = () =>
  queryOptions({
    queryKey: ["hosts"],
    queryFn: async ({ signal }) => (await answer(api.GET("/api/v1/hosts", { signal }))).items,
    ...LIST,
  });

export const host = (name: string) =>
  queryOptions({
    queryKey: ["hosts", name],
    queryFn: ({ signal }) => answer(api.GET("/api/v1/hosts/{name}", { params: { path: { name } }, signal })),
    refetchInterval: 5_000,
  });

/** A change of the array: says when it is done, and has everything that it may touch asked for again. */
export function useChange<Input, Output>(options: {
  run: (input: Input) => Promise<Output>;
  done: (output: Output, input: Input) => string;
  then?: (output: Output, input: Input) => void;
}) {
  const client = useQueryClient();
  return useMutation<Output, Refusal, Input>({
    mutationFn: options.run,
    onSuccess: async (output, input) => {
      notifications.show({ message: options.done(output, input), color: "teal", role: "status" });
      options.then?.(output, input);
      await client.invalidateQueries();
    },
  });
}
