import {
  type DescField,
  type DescMessage,
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  getOption,
} from "@bufbuild/protobuf";
import { Access, field as fieldPolicy } from "../../gen/gatehouse/platform/v1/policy_pb.ts";
import { http } from "../../gen/google/api/annotations_pb.ts";
import { policyOf } from "../../services/platform/rpc/policy.ts";

/** A field that is carried in a cookie. */
export type CookieField = { cookie: string; field: DescField };

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
    /** The lists that are left out of the response while they are empty. */
    omittedLists: method.output.fields.filter((field) => getOption(field, fieldPolicy).omitEmpty),
    /** Whether cross-site requests are rejected: the method is public and uses a cookie. */
    csrfProtected: policy.access === Access.PUBLIC && requestCookies.length > 0,
  };
}

function cookieFields({ fields }: DescMessage): CookieField[] {
  return fields
    .map((field) => ({ cookie: getOption(field, fieldPolicy).cookie, field }))
    .filter(({ cookie }) => cookie !== "");
}
