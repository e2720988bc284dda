import {
  type DescField,
  type DescMessage,
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  getOption,
} from "@bufbuild/protobuf";
import { field as fieldPolicy } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { http } from "../../gen/google/api/annotations_pb.ts";
import { policyOf } from "../../services/platform/rpc/policy.ts";
import { formatOf } from "../formats/formats.ts";

/** A field that is carried in a cookie. */
export type CookieField = {
  cookie: string;
  field: DescField;
  /** Whether the field is omitted from JSON. */
  isOnly: boolean;
  /** Lifetime of the cookie, in seconds; 0 for that of the JWT in it. */
  maxAgeSeconds: number;
};

/** The HTTP mapping of one RPC, read at startup from the options of its descriptor. */
export type HttpBinding = ReturnType<typeof readBinding>;

const httpMethods = { get: "GET", put: "PUT", post: "POST", delete: "DELETE" } as const;

/**
 * Reads the HTTP mapping of a method. `test/architecture/bindings.test.ts` checks that the gateway
 * supports its options.
 * @throws Error naming a method that has no route or declares no access
 */
export function readBinding(method: DescMethod) {
  const rule = getOption(method, http);
  const policy = policyOf(method);
  const httpMethod = httpMethods[rule.pattern.case as keyof typeof httpMethods];
  if (!httpMethod || !policy)
    throw new Error(`${method.parent.typeName}/${method.name} has no route`);
  const { fields } = method.input;
  const [requestCookies, responseCookies] = [
    cookieFields(method.input),
    cookieFields(method.output),
  ];
  const pathFields: DescField[] = [];
  const path = (rule.pattern.value as string).replace(/\{(\w+)\}/g, (_variable, name) => {
    const field = fields.find((candidate) => candidate.name === name) as DescField;
    pathFields.push(field);
    return `:${field.jsonName}`;
  });
  const taken = new Set([...pathFields, ...requestCookies.map(({ field }) => field)]);
  const free = fields.filter((field) => !taken.has(field));
  const hasBody = rule.body !== "";
  return {
    method: method as DescMethodServerStreaming | DescMethodUnary, // REST has no client streams
    policy,
    /** The JSON of requests and responses; undefined for that of the messages. */
    format: formatOf(policy.httpFormat),
    httpMethod,
    /** Route pattern, with path variables as `:jsonName`. */
    path,
    pathFields,
    queryFields: hasBody ? [] : free,
    /** Fields read from the JSON body; undefined for a method without a body. */
    bodyFields: hasBody ? free : undefined,
    requestCookies,
    responseCookies,
    /** The field that makes up the whole response body; if undefined, all fields do. */
    responseField: method.output.fields.find(({ name }) => name === rule.responseBody),
    /** The lists that are omitted from the response if they are empty. */
    omittedLists: method.output.fields.filter((field) => getOption(field, fieldPolicy).omitEmpty),
    /** The fields that are omitted from JSON responses. */
    hiddenFields: responseCookies.filter(({ isOnly }) => isOnly).map(({ field }) => field),
  };
}

function cookieFields({ fields }: DescMessage): CookieField[] {
  return fields
    .map((field) => {
      const { cookie, cookieOnly: isOnly, cookieMaxAgeSeconds } = getOption(field, fieldPolicy);
      return { cookie, field, isOnly, maxAgeSeconds: cookieMaxAgeSeconds };
    })
    .filter(({ cookie }) => cookie !== "");
}
