package services

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"berth/client/drivers/driver"
	"berth/structs"
)

// maxCheckOutput bounds the output of one result, in bytes.
const maxCheckOutput = 3 << 10

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 64 << 10

// maxRedirects bounds the redirects of one request.
const maxRedirects = 10

// probeResult is what one run of a check says.
type probeResult struct {
	status string // success, warning, failure
	output string
}

// failed returns a failure with its reason.
func failed(format string, args ...any) probeResult {
	return probeResult{structs.CheckFailing, fmt.Sprintf(format, args...)}
}

// probe runs a check once. ctx has its timeout.
func probe(ctx context.Context, t checkTarget) probeResult {
	var r probeResult
	switch t.Check.Type {
	case structs.CheckHTTP:
		r = probeHTTP(ctx, t)
	case structs.CheckTCP:
		r = probeTCP(ctx, t)
	case structs.CheckGRPC:
		r = probeGRPC(ctx, t)
	case structs.CheckScript:
		r = probeScript(ctx, t)
	default:
		r = failed("this agent knows no check of type %q", t.Check.Type)
	}
	r.output = bound(r.output)
	return r
}

// bound returns the beginning of an output as text that every reader can show.
func bound(output string) string {
	return structs.Cut(strings.ToValidUTF8(output, "\uFFFD"), maxCheckOutput)
}

// probeTCP succeeds when the address accepts a connection.
func probeTCP(ctx context.Context, t checkTarget) probeResult {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.Address)
	if err != nil {
		return failed("tcp: %v", err)
	}
	_ = conn.Close()
	return probeResult{structs.CheckPassing, "tcp: connected to " + t.Address}
}

// tlsConfig has the settings of a check for TLS.
func tlsConfig(c *structs.ServiceCheck) *tls.Config {
	return &tls.Config{
		ServerName:         c.TLSServerName,
		InsecureSkipVerify: c.TLSSkipVerify,
		MinVersion:         tls.VersionTLS12,
	}
}

// probeHTTP sends one request. An answer 2xx is a success and 429 a warning: the service has too many
// requests.
func probeHTTP(ctx context.Context, t checkTarget) probeResult {
	c := t.Check
	url := c.Protocol + "://" + t.Address + c.Path
	req, err := http.NewRequestWithContext(ctx, c.Method, url, strings.NewReader(c.Body))
	if err != nil {
		return failed("http: %v", err)
	}

	for name, values := range c.Header {
		for _, v := range values {
			req.Header.Add(name, v)
		}
	}

	// net/http sends req.Host, and not this field of the header.
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}

	req.Header.Set("User-Agent", cmp.Or(req.Header.Get("User-Agent"), "berth-check"))
	// Each run has a transport of its own: no connection stays open until the next one.
	transport := &http.Transport{
		TLSClientConfig:        tlsConfig(c),
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHeader,
	}
	defer transport.CloseIdleConnections()

	resp, err := (&http.Client{Transport: transport, CheckRedirect: keepMethod}).Do(req)
	if err != nil {
		return failed("http: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()

	// The status counts. A body that breaks off is no failure.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxCheckOutput))
	r := probeResult{structs.CheckFailing, fmt.Sprintf("http: %s: %s", resp.Status, body)}
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		r.status = structs.CheckPassing
	case resp.StatusCode == http.StatusTooManyRequests:
		r.status = structs.CheckWarning
	}

	return r
}

// keepMethod is http.Client.CheckRedirect. net/http would repeat a POST as a GET, whose answer says nothing
// about the check. So such a redirect is the answer.
func keepMethod(req *http.Request, via []*http.Request) error {
	if req.Method != via[0].Method {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}

// probeGRPC asks the health service of the gRPC health checking protocol.
func probeGRPC(ctx context.Context, t checkTarget) probeResult {
	creds := insecure.NewCredentials()
	if t.Check.GRPCUseTLS {
		creds = credentials.NewTLS(tlsConfig(t.Check))
	}

	// The check goes to the service itself, whatever proxy the environment of the agent names.
	conn, err := grpc.NewClient("passthrough:///"+t.Address,
		grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
	if err != nil {
		return failed("grpc: %v", err)
	}
	defer func() { _ = conn.Close() }()

	req := &healthpb.HealthCheckRequest{Service: t.Check.GRPCService}
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, req)
	if err != nil {
		return failed("grpc: %v", err)
	}

	if resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return failed("grpc: the status is %s", resp.GetStatus())
	}

	return probeResult{structs.CheckPassing, "grpc: SERVING"}
}

// probeScript runs the command in its task. Exit code 0 is a success, 1 a warning.
func probeScript(ctx context.Context, t checkTarget) probeResult {
	if t.Exec == nil {
		return failed("script: task %q does not run", t.Check.TaskName)
	}

	// Both streams make one output, as on a terminal.
	out := &checkOutput{}
	res, err := t.Exec(ctx, &driver.ExecConfig{
		Command: append([]string{t.Check.Command}, t.Check.Args...),
		Stdout:  out,
		Stderr:  out,
	})

	switch {
	// The end of the check cancels ctx, too. That is no timeout.
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return failed("script: no end within %s: %s", t.Check.Timeout, out)
	case err != nil:
		return failed("script: %v", err)
	case res.Successful():
		return probeResult{structs.CheckPassing, out.String()}
	case res.ExitCode == 1:
		return probeResult{structs.CheckWarning, out.String()}
	}

	return failed("script: exit code %d: %s", res.ExitCode, out)
}

// checkOutput keeps the first maxCheckOutput bytes of a command's output. Both streams write to it.
type checkOutput struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *checkOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(b[:min(len(b), maxCheckOutput-o.buf.Len())])
	return len(b), nil
}

func (o *checkOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
