import { Alert } from "@mantine/core";
import { TriangleAlert } from "lucide-react";
import { Refusal } from "../api/refusal";

/** The array's refusal, and what to do. */
export function ProblemAlert({ error }: { error: unknown }) {
  if (!error) return null;
  const { title, detail } = Refusal.of(error);
  return (
    <Alert color="red" variant="light" title={title} icon={<TriangleAlert size={18} />} role="alert">
      {sentence(detail)}
    </Alert>
  );
}

/** Details of the array begin in lower case, as they also follow `ashlar: `. */
function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
