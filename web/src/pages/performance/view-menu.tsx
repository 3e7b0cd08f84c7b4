import { ActionIcon, Button, Group, Menu, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { Bookmark, Trash2 } from "lucide-react";
import { useState } from "react";
import { FormModal } from "../../parts/form";
import { useViews } from "./views";

/** Saves the present view under a name, and opens saved views. */
export function ViewMenu({ search, onShow }: { search: string; onShow: (search: string) => void }) {
  const { views, save, remove } = useViews();
  const [saving, setSaving] = useState(false);
  const form = useForm({ initialValues: { name: "" }, validate: { name: (name) => (name.trim() === "" ? "Give it a name." : name.length > 60 ? "60 characters at most." : null) } });
  const close = () => {
    setSaving(false);
    form.reset();
  };
  return (
    <>
      <Menu position="bottom-end" width={260}>
        <Menu.Target>
          <Button variant="default" leftSection={<Bookmark size={15} aria-hidden />}>
            Views
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {views.length === 0 && (
            <Text size="sm" className="quiet" px="sm" py={6}>
              No saved views. A view keeps scope, comparison, kind of command, percentile and time.
            </Text>
          )}
          {views.map((view) => (
            <Group key={view.name} gap={0} wrap="nowrap">
              <Menu.Item onClick={() => onShow(view.search)} style={{ flex: 1, minWidth: 0 }}>
                <Text size="sm" truncate>
                  {view.name}
                </Text>
              </Menu.Item>
              <ActionIcon variant="subtle" color="gray" aria-label={`Delete view ${view.name}`} onClick={() => remove(view.name)}>
                <Trash2 size={14} />
              </ActionIcon>
            </Group>
          ))}
          <Menu.Divider />
          <Menu.Item onClick={() => setSaving(true)}>Save this view</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <FormModal
        opened={saving}
        onClose={close}
        title="Save view"
        verb="Save"
        busy={false}
        error={null}
        onSubmit={form.onSubmit(({ name }) => {
          save({ name: name.trim(), search });
          close();
        })}
      >
        <TextInput label="Name" description="Kept in this browser. An existing view of that name is replaced." autoComplete="off" data-autofocus required {...form.getInputProps("name")} />
      </FormModal>
    </>
  );
}
