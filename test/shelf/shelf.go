package shelf

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"berth/client/csi/mounts"
)

// shelf is the plugin. The directory records the calls of the processes, and the calls that a plugin must
// never receive:
//
//	vol/ID/disk             the image
//	vol/ID/attached/NODE    the volume is attached to the node
//	vol/ID/staged/NODE      the volume is mounted there, or shown as a device
//	vol/ID/device           the loop device that shows it
//	vol/ID/server           the process that serves its FUSE file system
//	vol/ID/target           where that is mounted
//	calls                   a line per call: node, RPC, volume, outcome
//	faults                  a line per call out of order
//	secrets                 a line per call with secrets: RPC, and Digest of the secret with the name password
//	tokens                  a line per publish with tokens: volume, place, map of the audiences
//	hold/RPC.before|after   calls wait while the file exists
//	hold/RPC.late           the same, and a call also has its effect when its caller has gone
//	hold/RPC.held           a call has waited, at the node that it names
//	offline                 while the file exists, volumes are expanded only while they are attached nowhere
//	machines/NODE           if the directory exists, the mount table of each machine that is on: then it says
//	                        whether a volume that is a directory is mounted there, and the plugin attaches a
//	                        volume to any number of nodes, as many storages do
type shelf struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	root, node string
}

// defaultShelfSize is the size of a volume without a requested size: about the minimum of xfs.
const defaultShelfSize = 300 << 20

// Run serves the plugin until it is told to stop, and returns the process's exit code. See its flags for the
// arguments.
func Run(args []string) int {
	flags := flag.NewFlagSet("shelf", flag.ExitOnError)
	root := flags.String("root", "", "the shared directory")
	node := flags.String("node", "", "this node")
	endpoint := flags.String("endpoint", "", "the socket")
	half := flags.String("half", "", "controller, node or monolith")
	_ = flags.Parse(args)
	path := strings.TrimPrefix(*endpoint, "unix://")
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := &shelf{root: *root, node: *node}
	server := grpc.NewServer(grpc.UnaryInterceptor(s.intercept))
	csi.RegisterIdentityServer(server, s)
	if *half != "node" {
		csi.RegisterControllerServer(server, s)
	}
	if *half != "controller" {
		csi.RegisterNodeServer(server, s)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() {
		<-ctx.Done()
		server.Stop()
	}()
	if err := server.Serve(l); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// intercept records every call and holds those that are to be held.
func (s *shelf) intercept(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, serve grpc.UnaryHandler,
) (any, error) {
	rpc := filepath.Base(info.FullMethod)
	volume := "-"
	if v, ok := req.(interface{ GetVolumeId() string }); ok {
		volume = v.GetVolumeId()
	}
	_ = s.hold(context.WithoutCancel(ctx), rpc, "late")
	if err := s.hold(ctx, rpc, "before"); err != nil {
		return nil, err
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	resp, err := serve(ctx, req)
	if r, ok := req.(interface{ GetSecrets() map[string]string }); ok && len(r.GetSecrets()) > 0 {
		s.append("secrets", rpc, Digest(r.GetSecrets()["password"]))
	}
	s.append("calls", s.node, rpc, volume, status.Code(err).String())
	unlock()
	if err := s.hold(ctx, rpc, "after"); err != nil {
		return nil, err
	}
	return resp, err
}

// Digest identifies a secret without showing it.
func Digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// hold waits while a file demands it. A call that is cancelled before its effect has none.
func (s *shelf) hold(ctx context.Context, rpc, when string) error {
	for {
		if _, err := os.Stat(s.path("hold", rpc+"."+when)); err != nil {
			return nil
		}
		_ = os.WriteFile(s.path("hold", rpc+".held"), []byte(s.node), 0o600)
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lock keeps all other processes of the plugin out.
func (s *shelf) lock() (unlock func(), err error) {
	f, err := os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

func (s *shelf) path(elem ...string) string {
	return filepath.Join(append([]string{s.root}, elem...)...)
}

func (s *shelf) append(file string, words ...string) {
	f, err := os.OpenFile(s.path(file), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = fmt.Fprintln(f, strings.Join(words, " "))
}

// fault records a call out of order, and rejects it.
func (s *shelf) fault(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	s.append("faults", text)
	return status.Error(codes.FailedPrecondition, text)
}

func (s *shelf) disk(id string) string {
	return s.path("vol", id, "disk")
}

// nodes lists where a volume is, in one of its directories "attached" and "staged".
func (s *shelf) nodes(id, dir string) (names []string) {
	entries, _ := os.ReadDir(s.path("vol", id, dir))
	for _, e := range entries {
		if dir == "attached" || s.mayBeMounted(id, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

func (s *shelf) find(id string) (size int64, err error) {
	info, err := os.Stat(s.disk(id))
	if err != nil || id == "" {
		return 0, status.Errorf(codes.NotFound, "no volume %q", id)
	}
	return info.Size(), nil
}

// The identity service.

func (*shelf) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

func (*shelf) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "shelf.test", VendorVersion: "1"}, nil
}

func (s *shelf) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	expansion := &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}
	if s.offline() {
		expansion.Type = csi.PluginCapability_VolumeExpansion_OFFLINE
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		{Type: &csi.PluginCapability_Service_{Service: service}},
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: expansion}},
	}}, nil
}

func (s *shelf) offline() bool {
	_, err := os.Stat(s.path("offline"))
	return err == nil
}

// The controller.

func (*shelf) ControllerGetCapabilities(
	context.Context, *csi.ControllerGetCapabilitiesRequest,
) (*csi.ControllerGetCapabilitiesResponse, error) {
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		rpc := &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{Type: rpc})
	}
	return resp, nil
}

func (s *shelf) CreateVolume(
	_ context.Context, req *csi.CreateVolumeRequest,
) (*csi.CreateVolumeResponse, error) {
	id := "shelf-" + req.GetName()
	size, err := s.find(id)
	if err != nil {
		for _, dir := range []string{"attached", "staged"} {
			if err := os.MkdirAll(s.path("vol", id, dir), 0o700); err != nil {
				return nil, err
			}
		}
		size = max(req.GetCapacityRange().GetRequiredBytes(), defaultShelfSize)
		if err := s.resize(id, size); err != nil {
			return nil, err
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id, CapacityBytes: size}}, nil
}

// resize makes an image, or changes its length.
func (s *shelf) resize(id string, size int64) error {
	f, err := os.OpenFile(s.disk(id), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func (s *shelf) DeleteVolume(
	_ context.Context, req *csi.DeleteVolumeRequest,
) (*csi.DeleteVolumeResponse, error) {
	id := req.GetVolumeId()
	if used := append(s.nodes(id, "attached"), s.nodes(id, "staged")...); len(used) > 0 {
		return nil, s.fault("%s is deleted while it is used on %v", id, used)
	}
	return &csi.DeleteVolumeResponse{}, os.RemoveAll(s.path("vol", id))
}

func (s *shelf) ValidateVolumeCapabilities(
	_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest,
) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if _, err := s.find(req.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext:      req.GetVolumeContext(),
		VolumeCapabilities: req.GetVolumeCapabilities(),
		Parameters:         req.GetParameters(),
	}}, nil
}

// ControllerPublishVolume rejects a volume that is attached to another node (CSI spec,
// ControllerPublishVolume errors).
func (s *shelf) ControllerPublishVolume(
	_ context.Context, req *csi.ControllerPublishVolumeRequest,
) (*csi.ControllerPublishVolumeResponse, error) {
	id := req.GetVolumeId()
	if _, err := s.find(id); err != nil {
		return nil, err
	}
	at := s.nodes(id, "attached")
	if len(at) > 0 && !slices.Equal(at, []string{req.GetNodeId()}) && !s.hasMachines() {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %v", id, at)
	}
	err := os.WriteFile(s.path("vol", id, "attached", req.GetNodeId()), nil, 0o600)
	return &csi.ControllerPublishVolumeResponse{}, err
}

func (s *shelf) ControllerUnpublishVolume(
	_ context.Context, req *csi.ControllerUnpublishVolumeRequest,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	id := req.GetVolumeId()
	node := req.GetNodeId()
	if slices.Contains(s.nodes(id, "staged"), node) {
		return nil, s.fault("%s is detached from %s, where it is mounted", id, node)
	}
	_ = os.Remove(s.path("vol", id, "attached", node))
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (s *shelf) ListVolumes(context.Context, *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	resp := &csi.ListVolumesResponse{}
	entries, err := os.ReadDir(s.path("vol"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		resp.Entries = append(resp.Entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: e.Name()},
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: s.nodes(e.Name(), "attached")},
		})
	}
	return resp, nil
}

func (s *shelf) ControllerExpandVolume(
	_ context.Context, req *csi.ControllerExpandVolumeRequest,
) (*csi.ControllerExpandVolumeResponse, error) {
	size, err := s.find(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if at := s.nodes(req.GetVolumeId(), "attached"); s.offline() && len(at) > 0 {
		return nil, s.fault("%s is expanded while it is attached to %v", req.GetVolumeId(), at)
	}
	size = max(size, req.GetCapacityRange().GetRequiredBytes())
	err = s.resize(req.GetVolumeId(), size)
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: true}, err
}

// The node.

func (*shelf) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	resp := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_EXPAND_VOLUME} {
		rpc := &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}}
		resp.Capabilities = append(resp.Capabilities, &csi.NodeServiceCapability{Type: rpc})
	}
	return resp, nil
}

func (s *shelf) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: s.node}, nil
}

func (s *shelf) NodeStageVolume(
	_ context.Context, req *csi.NodeStageVolumeRequest,
) (*csi.NodeStageVolumeResponse, error) {
	id := req.GetVolumeId()
	path := req.GetStagingTargetPath()
	if _, err := s.find(id); err != nil {
		return nil, err
	}
	if !slices.Contains(s.nodes(id, "attached"), s.node) {
		return nil, s.fault("%s is staged on %s, where it is not attached", id, s.node)
	}
	if at := s.nodes(id, "staged"); len(at) > 0 && !slices.Equal(at, []string{s.node}) {
		return nil, s.fault("%s is staged on %s and mounted on %v", id, s.node, at)
	}
	if req.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodeStageVolumeResponse{}, s.stageDevice(id)
	}
	if mounted(path) {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	if isDirectory(id) {
		return &csi.NodeStageVolumeResponse{}, s.stageDirectory(id, path)
	}
	if err := exec.Command("blkid", "-p", s.disk(id)).Run(); err != nil { // nothing is on it
		if err := command("mkfs.xfs", "-q", s.disk(id)); err != nil {
			return nil, err
		}
	}
	if err := command("mount", "-t", "xfs", "-o", "loop", s.disk(id), path); err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeResponse{}, os.WriteFile(s.path("vol", id, "staged", s.node), nil, 0o600)
}

func (s *shelf) NodeUnstageVolume(
	_ context.Context, req *csi.NodeUnstageVolumeRequest,
) (*csi.NodeUnstageVolumeResponse, error) {
	err := errors.Join(unmount(req.GetStagingTargetPath()),
		s.unstageDevice(req.GetVolumeId()))
	if err != nil {
		return nil, err
	}
	_ = os.Remove(s.path("vol", req.GetVolumeId(), "staged", s.node))
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (s *shelf) NodePublishVolume(
	_ context.Context, req *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	s.noteTokens(req)
	from := req.GetStagingTargetPath()
	to := req.GetTargetPath()
	if req.GetVolumeCapability().GetBlock() != nil {
		return &csi.NodePublishVolumeResponse{}, s.publishDevice(req.GetVolumeId(), to)
	}
	if !mounted(from) {
		return nil, s.fault("%s is published on %s, where it is not staged", req.GetVolumeId(), s.node)
	}
	if mounted(to) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	if isFUSE(req.GetVolumeId()) {
		return &csi.NodePublishVolumeResponse{}, s.publishFUSE(req.GetVolumeId(), to)
	}
	return &csi.NodePublishVolumeResponse{}, command("mount", "--bind", from, to)
}

func (s *shelf) NodeUnpublishVolume(
	_ context.Context, req *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := unmount(req.GetTargetPath()); err != nil {
		return nil, err
	}
	_ = os.Remove(req.GetTargetPath())
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (s *shelf) NodeExpandVolume(
	_ context.Context, req *csi.NodeExpandVolumeRequest,
) (*csi.NodeExpandVolumeResponse, error) {
	size, err := s.find(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if device := s.device(req.GetVolumeId()); device != "" {
		return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, command("losetup", "-c", device)
	}
	device, err := exec.Command("findmnt", "-no", "SOURCE", req.GetVolumePath()).Output()
	if err != nil {
		return nil, s.fault("%s is expanded on %s, where it is not mounted", req.GetVolumeId(), s.node)
	}
	loop, _, _ := strings.Cut(strings.TrimSpace(string(device)), "[")
	err = errors.Join(command("losetup", "-c", loop),
		command("xfs_growfs", req.GetVolumePath()))
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, err
}

func mounted(path string) bool {
	table, err := mounts.Read()
	return err == nil && table.Mounted(path)
}

func unmount(path string) error {
	if !mounted(path) {
		return nil
	}
	return command("umount", path)
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return status.Errorf(codes.Internal, "%s: %v: %s", name, err, out)
	}
	return nil
}
