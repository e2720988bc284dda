import { type DescExtension, type DescFile, type DescService, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type ServiceImpl } from "@connectrpc/connect";
import type { ServerReflection, ServerReflectionResponseSchema } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { remembered } from "../platform/policy.ts";

type Answer = MessageShape<typeof ServerReflectionResponseSchema>["messageResponse"];

/** Server reflection (grpc.reflection.v1) over these services, so that tools such as `buf curl` need no schema. */
export function reflectionHandler(services: readonly DescService[]): ServiceImpl<typeof ServerReflection> {
  const files = closure(services.map((service) => service.file));
  const byName = new Map(files.map((file) => [file.proto.name, file]));
  const bySymbol = new Map(files.flatMap((file) => symbolsOf(file).map((symbol) => [symbol, file])));
  const extensions = files.flatMap((file) => file.extensions);
  // encoded once, since the method is public
  const found = remembered((file: DescFile | undefined): Answer => {
    if (!file) return answer("errorResponse", { errorCode: Code.NotFound, errorMessage: "not found" });
    const fileDescriptorProto = closure([file]).map((f) => toBinary(FileDescriptorProtoSchema, f.proto));
    return answer("fileDescriptorResponse", { fileDescriptorProto });
  });
  return {
    async *serverReflectionInfo(requests) {
      for await (const request of requests) {
        const { messageRequest: query } = request;
        yield { validHost: request.host, originalRequest: request, messageResponse: respond(query) };
      }
    },
  };

  function respond(query: { case: string | undefined; value?: unknown }): Answer {
    switch (query.case) {
      case "listServices":
        return answer("listServicesResponse", { service: services.map(({ typeName }) => ({ name: typeName })) });
      case "fileByFilename":
        return found(byName.get(query.value as string));
      case "fileContainingSymbol":
        return found(bySymbol.get((query.value as string).replace(/^\./, "")));
      case "fileContainingExtension": {
        const { containingType, extensionNumber } = query.value as { containingType: string; extensionNumber: number };
        const isMeant = ({ extendee, number }: DescExtension) =>
          extendee.typeName === containingType && number === extensionNumber;
        return found(extensions.find(isMeant)?.file);
      }
      case "allExtensionNumbersOfType": {
        const numbers = extensions.filter((ext) => ext.extendee.typeName === query.value).map((ext) => ext.number);
        return answer("allExtensionNumbersResponse", { baseTypeName: query.value, extensionNumber: numbers });
      }
      default:
        return answer("errorResponse", { errorCode: Code.InvalidArgument, errorMessage: "The request is empty." });
    }
  }
}

function answer(kind: string, value: unknown): Answer {
  return { case: kind, value } as Answer;
}

/** The files and everything they import, imports first. */
function closure(files: readonly DescFile[], seen = new Set<DescFile>()): DescFile[] {
  return files.flatMap((file) => {
    if (seen.has(file)) return [];
    seen.add(file);
    return [...closure(file.dependencies, seen), file];
  });
}

/** Full names of everything that a file declares. */
function symbolsOf(file: DescFile): string[] {
  return [...nestedTypes(file)].flatMap((type) => {
    const members = type.kind === "message" ? type.fields : type.kind === "service" ? type.methods : [];
    return [type.typeName, ...members.map(({ name }) => `${type.typeName}.${name}`)];
  });
}
