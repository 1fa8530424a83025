package admin

import (
	"cmp"
	"net/http"
	"reflect"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/control"
	"authguard/internal/operation"
)

// openAPI is GET /api/openapi.json: inquiries and the operations of the table as OpenAPI 3.1.
func (a *API) openAPI(echo.Context) (any, error) {
	paths := map[string]map[string]any{}
	add := func(route string, describe func(method string) map[string]any) {
		method, path, _ := strings.Cut(route, " ")
		path = "/api" + pathParameter.ReplaceAllString(path, "{$1}")
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(method)] = describe(method)
	}
	for _, o := range a.operations() {
		if o.Route != "" {
			add(o.Route, func(method string) map[string]any { return described(method, o) })
		}
	}
	for _, i := range a.inquiries() {
		add(i.route, func(string) map[string]any { return i.described() })
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "authguard admin API", "version": "1",
			"description": "Operations of administrators. Every error is a problem document (RFC 9457)."},
		"security": []any{map[string]any{"bearer": []any{}}},
		"paths":    paths,
		"components": map[string]any{"securitySchemes": map[string]any{
			"bearer": map[string]any{"type": "http", "scheme": "bearer"}}},
	}, nil
}

var pathParameter = regexp.MustCompile(`:(\w+)`)

// described returns an inquiry for the document.
func (i *inquiry) described() map[string]any {
	parameters := []any{}
	for _, m := range pathParameter.FindAllStringSubmatch(i.route, -1) {
		parameters = append(parameters, inPath(m[1]))
	}
	query := i.query
	if i.where == control.OneRealm {
		query = "realm " + query
	}
	for name := range strings.FieldsSeq(query) {
		parameters = append(parameters, parameter(name, map[string]any{"type": "string"}))
	}
	return map[string]any{
		"summary": i.about, "parameters": parameters, "x-scope": i.scope,
		"responses": map[string]any{"200": map[string]any{"description": "The answer."}, "default": problemResponse()},
	}
}

// described returns an operation for the document. A DELETE and an upload have their fields in the query.
func described(method string, o control.Operation) map[string]any {
	_, upload := o.Request().(operation.Uploaded)
	status, parameters, properties := "200", []any{}, map[string]any{}
	if o.Created {
		status = "201"
	}
	if o.Where == control.OneRealm || o.Where == control.NamedRealm {
		parameters = append(parameters, parameter("realm", map[string]any{"type": "string"}))
	}
	for _, f := range fieldsOf(reflect.ValueOf(o.Request()).Elem()) {
		schema := map[string]any{"type": map[reflect.Kind]string{reflect.Bool: "boolean", reflect.Int64: "integer",
			reflect.Slice: "array"}[f.Type.Kind()]}
		schema["type"] = cmp.Or(schema["type"].(string), "string")
		if f.Type.Kind() == reflect.Slice {
			schema["items"] = map[string]any{"type": "string"}
		}
		if help := f.Tag.Get("help"); help != "" {
			schema["description"] = help
		}
		switch {
		case f.inPath(o.Route):
			parameters = append(parameters, inPath(f.name))
		case method == http.MethodDelete || upload:
			parameters = append(parameters, parameter(f.name, schema))
		default:
			properties[f.name] = schema
		}
	}
	answer := map[string]any{
		"summary": cmp.Or(o.Did, o.Name), "parameters": parameters, "x-scope": o.Scope,
		"responses": map[string]any{status: map[string]any{"description": "The change was made."},
			"default": problemResponse()},
	}
	if upload {
		answer["requestBody"] = map[string]any{"required": true, "content": map[string]any{"application/octet-stream": nil}}
	} else if method != http.MethodDelete {
		answer["requestBody"] = map[string]any{"required": true, "content": map[string]any{"application/json": map[string]any{
			"schema": map[string]any{"type": "object", "additionalProperties": false, "properties": properties}}}}
	}
	return answer
}

func problemResponse() any {
	return map[string]any{"description": "A problem document; `detail` says what to do."}
}

func inPath(name string) any {
	return map[string]any{"name": name, "in": "path", "required": true, "schema": map[string]any{"type": "string"}}
}

func parameter(name string, schema any) map[string]any {
	return map[string]any{"name": name, "in": "query", "schema": schema}
}
