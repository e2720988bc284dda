/**
 * Prints buf/validate/validate.proto from the descriptor that @bufbuild/protovalidate carries, into
 * the git-ignored node_modules/.proto, so that buf can resolve the import offline: no npm package
 * ships the text. Options are left out; generated code imports the package's own descriptor.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type {
  DescriptorProto,
  EnumDescriptorProto,
  FieldDescriptorProto,
} from "@bufbuild/protobuf/wkt";
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from "@bufbuild/protobuf/wkt";
import { file_buf_validate_validate as file } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

const EXTENSION_MAX = 536_870_912;
const { proto } = file;

const scalar = (type: Type): string => (Type[type] ?? "").toLowerCase();
const labels: Partial<Record<Label, string>> = {
  [Label.OPTIONAL]: "optional ",
  [Label.REPEATED]: "repeated ",
  [Label.REQUIRED]: "required ",
};

function field(f: FieldDescriptorProto, label = labels[f.label] ?? ""): string {
  return `${label}${f.typeName || scalar(f.type)} ${f.name} = ${f.number};`;
}

function enumeration(e: EnumDescriptorProto): string[] {
  return [`enum ${e.name} {`, ...e.value.map((v) => `${v.name} = ${v.number};`), "}"];
}

function message(m: DescriptorProto): string[] {
  const inOneof = (index: number) =>
    m.field.filter((f) => f.oneofIndex === index && !f.proto3Optional);
  const plain = m.field.filter(
    (f) => !m.oneofDecl.some((_, index) => inOneof(index).includes(f)) || !isOneofMember(f),
  );
  function isOneofMember(f: FieldDescriptorProto) {
    return Object.hasOwn(f, "oneofIndex") && !f.proto3Optional;
  }
  return [
    `message ${m.name} {`,
    ...m.enumType.flatMap(enumeration),
    ...m.nestedType.flatMap(message),
    ...plain.map((f) => field(f)),
    ...m.oneofDecl.flatMap((o, index) => {
      const members = inOneof(index).filter(isOneofMember);
      return members.length ? [`oneof ${o.name} {`, ...members.map((f) => field(f, "")), "}"] : [];
    }),
    ...m.extensionRange.map(
      (r) => `extensions ${r.start} to ${r.end >= EXTENSION_MAX ? "max" : r.end - 1};`,
    ),
    ...m.reservedRange.map((r) => `reserved ${r.start} to ${r.end - 1};`),
    ...m.reservedName.map((name) => `reserved "${name}";`),
    "}",
  ];
}

const lines = [
  `syntax = "${proto.syntax || "proto2"}";`,
  `package ${proto.package};`,
  ...proto.dependency.map((path) => `import "${path}";`),
  ...proto.enumType.flatMap(enumeration),
  ...proto.messageType.flatMap(message),
  ...proto.extension.flatMap((f) => [`extend ${f.extendee} {`, field(f), "}"]),
];
const target = `node_modules/.proto/${proto.name}`;
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, `${lines.join("\n")}\n`);
