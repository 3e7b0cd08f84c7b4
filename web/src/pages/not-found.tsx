import { Button } from "@mantine/core";
import { SearchX } from "lucide-react";
import { Link } from "wouter";
import { Empty } from "../parts/empty";
import { Page } from "../parts/page";
import { Panel } from "../parts/panel";

export function NotFoundPage() {
  return (
    <Page title="No such page">
      <Panel>
        <Empty
          icon={SearchX}
          title="There is nothing at this address"
          text="What it showed may have been renamed or deleted."
          action={
            <Button component={Link} href="/" variant="default">
              To the dashboard
            </Button>
          }
        />
      </Panel>
    </Page>
  );
}
