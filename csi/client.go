package csi

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"berth/structs"
)

const (
	// DefaultTimeout bounds a call whose context ends later or never. A deadline cancels nothing at the
	// plugin (CSI spec, "Timeouts"): a repeat of the call resumes the operation.
	DefaultTimeout = 2 * time.Minute

	maxHeaders = 1 << 20 // of an answer; an error's text is among them
	window     = 1 << 20 // bytes that a plugin may send before they are read
)

// Client is a connection to one plugin. It is safe for concurrent use. It connects with the first call
// and again whenever the plugin has come back on the same socket.
type Client struct {
	conn     *grpc.ClientConn
	endpoint string
	options  Options

	connections atomic.Uint64 // successful dials: see Connections

	identity   spec.IdentityClient
	controller spec.ControllerClient
	node       spec.NodeClient
	group      spec.GroupControllerClient

	// It guards the fields below. Calls run concurrently, and any of them may be the first to learn an
	// answer.
	mu      sync.Mutex
	name    string // the plugin's ID in the cluster, else the name it gave itself
	learned learned
}

// Options configure a client. All fields may be zero.
type Options struct {
	Name    string // the plugin's ID, for errors
	Logger  hclog.Logger
	Timeout time.Duration // bounds each call whose context ends later; DefaultTimeout
	// Guard, if not nil, makes each call with its last argument, or rejects it with an error of its own. The
	// call is for the volume that the request names: its volume_id, "name:" and the name of what a plugin
	// is to create, or "snapshot:" and a snapshot_id; "" is about none.
	Guard func(ctx context.Context, rpc, volume string, call func() error) error
	// Metrics is called after each call with the RPC's name, the name of its gRPC code and its duration.
	Metrics func(method, code string, took time.Duration)
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Metrics == nil {
		o.Metrics = func(string, string, time.Duration) {}
	}
	return o
}

// Dial prepares a client of the plugin that listens on endpoint: unix:///path, unix:/path or a bare absolute
// path. It does not wait for the plugin: while nothing listens, a call fails at once with unavailable.
func Dial(endpoint string, o Options) (*Client, error) {
	path, err := SocketPath(endpoint)
	if err != nil {
		return nil, err
	}

	c := &Client{
		endpoint: endpoint,
		options:  o.withDefaults(),
		name:     o.Name,
	}

	// The endpoint is a path: a resolver has nothing to look up.
	conn, err := grpc.NewClient("passthrough:///"+path, c.dialOptions()...)
	if err != nil {
		return nil, structs.Internalf("csi endpoint %q: %w", endpoint, err)
	}

	c.conn = conn
	c.identity = spec.NewIdentityClient(conn)
	c.controller = spec.NewControllerClient(conn)
	c.node = spec.NewNodeClient(conn)
	c.group = spec.NewGroupControllerClient(conn)
	return c, nil
}

// dialOptions returns the options of the connection. The bounds are there because no plugin is trusted.
func (c *Client) dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// Without an authority of its own, gRPC would send the path as one, which strict HTTP/2 servers
		// reject.
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(c.dial),
		grpc.WithConnectParams(grpc.ConnectParams{
			// The plugin is on this machine: frequent attempts cost little and find it soon after its start.
			Backoff: backoff.Config{
				BaseDelay:  20 * time.Millisecond,
				Multiplier: 1.5,
				Jitter:     0.2,
				MaxDelay:   250 * time.Millisecond,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithUnaryInterceptor(c.intercept),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(structs.MaxCSIAnswer)),
		grpc.WithMaxHeaderListSize(maxHeaders),
		// A fixed window turns off the window that grows with the traffic, so a plugin cannot make this
		// process buffer more.
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(window),
		// A service config could make gRPC repeat calls. The callers alone decide on that.
		grpc.WithDisableServiceConfig(),
		// An idle connection stays open, because a new one would look like another process: see Connections.
		grpc.WithIdleTimeout(0),
	}
}

// dial connects to the socket and counts the connection: see Connections.
func (c *Client) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", addr)
	if err == nil {
		c.connections.Add(1)
	}
	return conn, err
}

// Close ends the connection. Calls in flight fail with a timeout error, because their outcome is unknown.
func (c *Client) Close() error {
	return c.conn.Close()
}

// Connections returns how often the client has connected. A connection lasts as long as the process at its
// other end, so another number means that the plugin may be another process.
func (c *Client) Connections() uint64 {
	return c.connections.Load()
}

// pluginTitle returns the plugin's name for errors. Another call may learn the name meanwhile, so it takes
// the lock.
func (c *Client) pluginTitle() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name != "" {
		return fmt.Sprintf("plugin %q", c.name)
	}
	return "plugin at " + c.endpoint
}

// SocketPath reads an endpoint in any of its forms (unix:///path, unix:/path, /path).
func SocketPath(endpoint string) (string, error) {
	path := endpoint
	if rest, ok := strings.CutPrefix(endpoint, "unix:"); ok {
		path = strings.TrimPrefix(rest, "//")
	}
	if !filepath.IsAbs(path) {
		return "", structs.Invalidf(
			"csi endpoint %q: expected unix:///path, unix:/path or an absolute path", endpoint)
	}
	return path, nil
}

// intercept makes one RPC: guarded, bounded in time, measured, its error classified and free of secrets. It
// is a grpc.UnaryClientInterceptor.
func (c *Client) intercept(
	ctx context.Context, method string, req, resp any,
	conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	// An earlier deadline of the caller stays in force.
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	rpc := path.Base(method)
	call := func() error {
		start := time.Now()
		var reply answer
		err := invoke(ctx, method, req, resp, conn, reply.observe(opts)...)
		took := time.Since(start)
		code := status.Code(err).String()
		c.options.Metrics(rpc, code, took)
		c.options.Logger.Trace("csi call", "rpc", rpc, "code", code, "took", took)
		if err != nil {
			return c.classify(rpc, err, reply, secretsOf(req))
		}
		return nil
	}
	if c.options.Guard == nil {
		return call()
	}
	return c.options.Guard(ctx, rpc, volumeOf(req), call)
}

// answer tells how far a call came.
type answer struct {
	to              peer.Peer // the address of the call, empty while there was no connection
	header, trailer metadata.MD
}

// observe returns the options of a call, with the options that fill in the answer.
func (a *answer) observe(opts []grpc.CallOption) []grpc.CallOption {
	// Clip, because all calls share the options of the connection.
	return append(slices.Clip(opts), grpc.Peer(&a.to), grpc.Header(&a.header), grpc.Trailer(&a.trailer))
}

// unsent reports whether there was no connection.
func (a *answer) unsent() bool { return a.to.Addr == nil }

// lost reports whether the connection ended before the plugin answered. Each answer has at least the type of
// its content (gRPC over HTTP/2, "Responses").
func (a *answer) lost(code codes.Code) bool {
	return code == codes.Unavailable && !a.unsent() && len(a.header)+len(a.trailer) == 0
}

// volumeOf returns the volume that a request is about: see Options.Guard.
func volumeOf(req any) string {
	switch r := req.(type) {
	case interface{ GetVolumeId() string }:
		return r.GetVolumeId()
	case interface{ GetSourceVolumeId() string }: // of a new snapshot
		return r.GetSourceVolumeId()
	case interface{ GetName() string }:
		return "name:" + r.GetName()
	case interface{ GetSnapshotId() string }:
		return "snapshot:" + r.GetSnapshotId()
	case interface{ GetGroupSnapshotId() string }:
		return "snapshot:" + r.GetGroupSnapshotId()
	}
	return ""
}
