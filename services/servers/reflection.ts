import {
  createRegistry,
  type DescFile,
  type DescService,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { Reason } from "../../gen/gatehouse/platform/v1/failure_pb.ts";
import type {
  ServerReflection,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { ServiceError } from "../platform/rpc/errors.ts";
import { remembered } from "../platform/rpc/policy.ts";

type Query = MessageShape<typeof ServerReflectionRequestSchema>["messageRequest"];
type Answer = MessageShape<typeof ServerReflectionResponseSchema>["messageResponse"];

/**
 * Server reflection (grpc.reflection.v1) for the given services, so that tools such as `buf curl`
 * need no schema.
 */
export function reflectionHandler(
  services: readonly DescService[],
): ServiceImpl<typeof ServerReflection> {
  const files = closure(services.map((service) => service.file));
  const types = createRegistry(...files);
  const extensionsOf = (typeName: string) =>
    files
      .flatMap(({ extensions }) => extensions)
      .filter(({ extendee }) => extendee.typeName === typeName);
  // encoded once, because the method is public
  const found = remembered((file: DescFile | undefined): Answer => {
    if (!file)
      return answer("errorResponse", { errorCode: Code.NotFound, errorMessage: "not found" });
    const fileDescriptorProto = closure([file]).map((f) =>
      toBinary(FileDescriptorProtoSchema, f.proto),
    );
    return answer("fileDescriptorResponse", { fileDescriptorProto });
  });
  const respond = ({ case: kind, value }: Query): Answer => {
    if (kind === "listServices") {
      return answer("listServicesResponse", {
        service: services.map(({ typeName }) => ({ name: typeName })),
      });
    }
    if (kind === "fileByFilename") return found(files.find(({ proto }) => proto.name === value));
    if (kind === "fileContainingSymbol") {
      const symbol = value.replace(/^\./, "");
      const type = types.get(symbol) ?? types.get(symbol.replace(/\.\w+$/, "")); // for a field or method, its parent
      return found(type?.file);
    }
    if (kind === "fileContainingExtension") {
      return found(
        extensionsOf(value.containingType).find(({ number }) => number === value.extensionNumber)
          ?.file,
      );
    }
    if (kind === "allExtensionNumbersOfType") {
      const extensionNumber = extensionsOf(value).map(({ number }) => number);
      return answer("allExtensionNumbersResponse", { baseTypeName: value, extensionNumber });
    }
    return answer("errorResponse", {
      errorCode: Code.InvalidArgument,
      errorMessage: "The request is empty.",
    });
  };
  return {
    async *serverReflectionInfo(requests) {
      for await (const request of readable(requests)) {
        yield {
          validHost: request.host,
          originalRequest: request,
          messageResponse: respond(request.messageRequest),
        };
      }
    },
  };
}

const answer = (kind: string, value: unknown) => ({ case: kind, value }) as Answer;

/**
 * Passes on the requests of a stream. Connect reports one that cannot be decoded as an internal
 * error.
 * @throws ServiceError MALFORMED_REQUEST
 */
async function* readable<T>(requests: AsyncIterable<T>): AsyncIterable<T> {
  try {
    yield* requests;
  } catch (error) {
    if (!(error instanceof ConnectError && error.code === Code.Internal)) throw error;
    throw new ServiceError(Reason.MALFORMED_REQUEST, "The request cannot be parsed.");
  }
}

/** The given files and everything they import, imports first. */
function closure(files: readonly DescFile[], seen = new Set<DescFile>()): DescFile[] {
  return files.flatMap((file) => {
    if (seen.has(file)) return [];
    seen.add(file);
    return [...closure(file.dependencies, seen), file];
  });
}
