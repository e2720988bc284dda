/**
 * A buf plugin that writes the comments of the protos, by full name, for the OpenAPI document. The
 * generated descriptors have no comments.
 */
import type { AnyDesc, DescFile, DescMessage } from "@bufbuild/protobuf";
import { createEcmaScriptPlugin, getComments, runNodeJs } from "@bufbuild/protoplugin";

type Described = Parameters<typeof getComments>[0];

const plugin = createEcmaScriptPlugin({
  name: "protoc-gen-comments",
  version: "v1",
  generateTs(schema) {
    const ours = schema.files.filter((file) => file.proto.package.startsWith("gatehouse."));
    const entries = ours.flatMap(described).flatMap((desc) => {
      const text = getComments(desc).leading?.replace(/\s+/g, " ").trim();
      return text ? [[nameOf(desc), text]] : [];
    });
    const file = schema.generateFile("comments.ts");
    file.print(
      "/** What the protos say about services, methods, messages and fields, by full name. */",
    );
    file.print(
      "export const comments: Readonly<Record<string, string>> = ",
      JSON.stringify(Object.fromEntries(entries), null, 2),
      ";",
    );
  },
});

function described(file: DescFile): Described[] {
  return [
    ...file.services.flatMap((service) => [service, ...service.methods]),
    ...file.messages.flatMap(within),
    ...file.enums.flatMap((enumeration) => [enumeration, ...enumeration.values]),
  ];
}

function within(message: DescMessage): Described[] {
  return [message, ...message.fields, ...message.nestedMessages.flatMap(within)];
}

function nameOf(desc: AnyDesc): string {
  if (desc.kind === "field" || desc.kind === "rpc" || desc.kind === "enum_value")
    return `${desc.parent.typeName}.${desc.name}`;
  return "typeName" in desc ? desc.typeName : desc.name;
}

runNodeJs(plugin);
