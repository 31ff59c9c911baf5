package drivertest

import (
	"cmp"
	"context"
	"os"
	"path"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"berth/client/drivers/protocol/base"
	"berth/client/drivers/protocol/device"
	"berth/client/drivers/protocol/driver"
	"berth/client/drivers/protocol/hclspec"
	"berth/client/drivers/protocol/shared"
)

// serve serves the plugin until the agent asks it to end.
func serve(kind string, p *Plugin) {
	goplugin.Serve(&goplugin.ServeConfig{
		// It is written out here, so that a change of the agent's fails the tests.
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion:  2,
			MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
			MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
		},
		Plugins: goplugin.PluginSet{"x": &services{kind: kind, plugin: p}},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			// The faults are applied before the services, so that each method has them.
			return grpc.NewServer(append(options, grpc.UnaryInterceptor(p.unary),
				grpc.StreamInterceptor(p.stream))...)
		},
		Logger: hclog.NewNullLogger(),
	})
}

// services registers what a plugin serves. The name is read once, at the start of the process, as a real
// plugin has one name for all of its time.
type services struct {
	goplugin.NetRPCUnsupportedPlugin
	kind   string
	plugin *Plugin
}

// GRPCServer implements goplugin.GRPCPlugin.
func (s *services) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	base.RegisterBasePluginServer(g, &baseService{kind: s.kind, name: s.plugin.setting("name")})
	if s.kind == DriverPlugin {
		driver.RegisterDriverServer(g, &driverService{plugin: s.plugin, tasks: map[string]*task{}})
	} else {
		device.RegisterDevicePluginServer(g, &deviceService{plugin: s.plugin})
	}
	return nil
}

// GRPCClient implements goplugin.GRPCPlugin. Only the agent's side has a client.
func (s *services) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

// unary applies the faults of a method.
func (p *Plugin) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (any, error) {
	answer, err := p.fault(ctx, path.Base(info.FullMethod))
	if answer != nil || err != nil {
		return answer, err
	}
	return next(ctx, req)
}

// stream applies the faults of a method that streams.
func (p *Plugin) stream(
	service any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	method := path.Base(info.FullMethod)
	answer, err := p.fault(s.Context(), method)
	// Without an error the stream is closed as if all was sent.
	if err != nil || p.setting(method) == Close {
		return err
	}
	if answer != nil {
		return s.SendMsg(answer)
	}
	return next(service, s)
}

// fault logs a call and applies its fault. Without an answer and an error there is none.
func (p *Plugin) fault(ctx context.Context, method string) (answer any, err error) {
	// The call is logged first, so that a test can wait for one that hangs.
	p.append("calls", method)
	fault := p.setting(method)
	for fault == Hang {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollInterval):
		}

		if p.setting(method) != Hang {
			return nil, recoverable("this call was held up") // its caller may have given up
		}
	}

	switch fault {
	case Exit:
		os.Exit(3)
	// It is more than the agent takes of one message.
	case Huge:
		return &base.PluginInfoResponse{Name: strings.Repeat("x", 8<<20)}, nil
	case Garbage:
		noise := &base.PluginInfoRequest{}
		noise.ProtoReflect().SetUnknown([]byte{0x0f, 0xff}) // a field of a type that does not exist
		return noise, nil
	case Fail:
		return nil, status.Error(codes.Unknown, "this call fails")
	case Retry:
		return nil, recoverable("this call fails now")
	}

	return nil, nil
}

// recoverable makes an error that says that the call may succeed later.
func recoverable(text string) error {
	detail := protoadapt.MessageV1Of(&shared.RecoverableError{Recoverable: true})
	// Plugins have no code for it: the detail alone says so.
	s, err := status.New(codes.Unknown, text).WithDetails(detail)
	if err != nil {
		return err
	}
	return s.Err()
}

// baseService has the information about the plugin.
type baseService struct {
	base.UnimplementedBasePluginServer
	kind string
	name string // "": the usual one
}

func (b *baseService) PluginInfo(context.Context, *base.PluginInfoRequest) (*base.PluginInfoResponse, error) {
	info := &base.PluginInfoResponse{
		Type:              base.PluginType_DRIVER,
		PluginApiVersions: []string{"v0.1.0"},
		PluginVersion:     "v1",
		Name:              cmp.Or(b.name, "test-"+b.kind),
	}
	if b.kind == DevicePlugin {
		info.Type = base.PluginType_DEVICE
	}
	return info, nil
}

func (b *baseService) ConfigSchema(
	context.Context, *base.ConfigSchemaRequest,
) (*base.ConfigSchemaResponse, error) {
	return &base.ConfigSchemaResponse{Spec: objectOf("label", false)}, nil
}

// SetConfig divides by the number and by the speed of the cores, as drivers do that limit processors: one
// without a topology ends in a panic.
func (b *baseService) SetConfig(
	_ context.Context, r *base.SetConfigRequest,
) (*base.SetConfigResponse, error) {
	if b.kind == DriverPlugin {
		t := r.GetNomadConfig().GetDriver().GetTopology()
		total := uint64(0)
		for _, core := range t.GetCores() {
			total += cmp.Or(core.GetBaseSpeed(), core.GetMaxSpeed(), core.GetGuessSpeed())
		}
		average := total / uint64(len(t.GetCores()))
		if 100*average/total > 100 {
			return nil, status.Error(codes.Unknown, "one core is faster than all of them")
		}
	}
	return &base.SetConfigResponse{}, nil
}

// objectOf is the schema of one text.
func objectOf(name string, required bool) *hclspec.Spec {
	attr := &hclspec.Attr{Name: name, Type: "string", Required: required}
	return &hclspec.Spec{Block: &hclspec.Spec_Object{Object: &hclspec.Object{
		Attributes: map[string]*hclspec.Spec{name: {Block: &hclspec.Spec_Attr{Attr: attr}}},
	}}}
}
