package metrics

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Traces sends spans of requests to an OpenTelemetry collector. A span has the method, the route's pattern and the
// status, but no user input. A nil *Traces does nothing.
type Traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// NewTraces sends to a collector's base URL such as http://127.0.0.1:4318 (OTLP over HTTP); "" returns nil. The sampler,
// and headers and certificates for the collector, come from OpenTelemetry's environment variables.
func NewTraces(endpoint string, build Build, log *slog.Logger) (*Traces, error) {
	if endpoint == "" {
		return nil, nil
	}
	// The library reports an unavailable collector only in this way.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces cannot be sent", "error", err) }))
	to, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(endpoint+"/v1/traces"))
	if err != nil {
		return nil, fmt.Errorf("tracing.endpoint: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(to),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "authguard"),
			attribute.String("service.version", build.Version))))
	return &Traces{provider, provider.Tracer("authguard")}, nil
}

// Close sends the remaining spans within 3 seconds. An unavailable collector is not an error.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// Request records a span of each request. It continues a trace only from a configured proxy (believed): otherwise
// clients could choose what is sampled. A request to an app carries the header traceparent (W3C Trace Context).
func (t *Traces) Request(listener string, believed func(*http.Request) bool, next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	var header propagation.TraceContext
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if believed(r) {
			ctx = header.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		ctx, span := t.tracer.Start(ctx, method(r.Method), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("authguard.listener", listener), attribute.String("http.request.method", method(r.Method))))
		defer span.End()
		header.Inject(ctx, propagation.HeaderCarrier(r.Header))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// method returns a known HTTP method, so the attribute is a closed set.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return m
	}
	return "_OTHER"
}

// answered adds the route and the status to the request's span.
func answered(ctx context.Context, method, route string, status int) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetName(method + " " + cmp.Or(route, "none of ours"))
	span.SetAttributes(attribute.String("http.route", route), attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

func step(ctx context.Context, name string, took time.Duration) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	ended := time.Now()
	_, of := span.TracerProvider().Tracer("authguard").Start(ctx, name, trace.WithTimestamp(ended.Add(-took)))
	of.End(trace.WithTimestamp(ended))
}
