// Package endpoint serves what servers ask of a node about CSI: calls of the controllers that run here,
// and to let go of a volume. A controller call is handed to the healthy instance of the plugin at once or
// answered with unavailable, so that the server can ask another node; it is the only call in flight for
// its volume on this node. An error whose outcome is not known crosses the wire as timeout, whatever its
// gRPC code: the servers repeat it with the same arguments.
package endpoint

import (
	"context"
	"errors"

	"berth/client/csimanager"
	"berth/csi"
	"berth/rpc"
	"berth/structs"
)

// List makes the endpoints. running tells whether an allocation still runs on this node.
func List(m *csimanager.Manager, running func(allocID string) bool) []rpc.Endpoint {
	e := &endpoints{m, running}
	return []rpc.Endpoint{
		rpc.Handle(structs.ClientCSIControllerCreate, e.create),
		rpc.Handle(structs.ClientCSIControllerDelete, e.delete),
		rpc.Handle(structs.ClientCSIControllerAttach, e.attach),
		rpc.Handle(structs.ClientCSIControllerDetach, e.detach),
		rpc.Handle(structs.ClientCSIControllerValidate, e.validate),
		rpc.Handle(structs.ClientCSIControllerExpand, e.expand),
		rpc.Handle(structs.ClientCSIControllerList, e.list),
		rpc.Handle(structs.ClientCSINodeDetach, e.nodeDetach),
	}
}

type endpoints struct {
	m       *csimanager.Manager
	running func(allocID string) bool
}

// with calls the healthy controller of a plugin, as the only call for the volume.
func with[T any](ctx context.Context, e *endpoints, pluginID, volume string, call func(*csimanager.Conn) (T, error)) (resp T, err error) {
	conn, err := e.m.Healthy(structs.CSIKindController, pluginID)
	if err != nil {
		return resp, err
	}
	err = e.m.Exclusive(ctx, pluginID, volume, func() error {
		resp, err = call(conn)
		return err
	})
	return resp, overWire(err)
}

// overWire keeps what only a gRPC code tells: that the outcome of a failed call is not known.
func overWire(err error) error {
	if err != nil && !csi.Final(err) && structs.KindOf(err).Final() {
		return structs.Errorf(structs.KindTimeout, "%w", err)
	}
	return err
}

func empty(call func(*csimanager.Conn) error) func(*csimanager.Conn) (*structs.Empty, error) {
	return func(c *csimanager.Conn) (*structs.Empty, error) {
		if err := call(c); err != nil {
			return nil, err
		}
		return &structs.Empty{}, nil
	}
}

func (e *endpoints) create(ctx context.Context, req *structs.ClientCSICreateRequest) (*structs.ClientCSICreateResponse, error) {
	return with(ctx, e, req.PluginID, "name:"+req.Name, func(c *csimanager.Conn) (*structs.ClientCSICreateResponse, error) {
		resp, err := c.CreateVolume(ctx, req)
		if err == nil {
			return resp, nil
		}
		if resp == nil || resp.ExternalID == "" {
			return nil, err
		}
		// The plugin made a volume that is not what was asked for: it is of no use to anybody.
		del := &structs.ClientCSIDeleteRequest{PluginID: req.PluginID, ExternalID: resp.ExternalID, Secrets: req.Secrets}
		if delErr := c.DeleteVolume(ctx, del); delErr != nil {
			return nil, errors.Join(err, delErr)
		}
		return nil, structs.Errorf(structs.KindInvalid, "%v; the volume %q that was made is deleted again", err, resp.ExternalID)
	})
}

func (e *endpoints) delete(ctx context.Context, req *structs.ClientCSIDeleteRequest) (*structs.Empty, error) {
	return with(ctx, e, req.PluginID, req.ExternalID, empty(func(c *csimanager.Conn) error { return c.DeleteVolume(ctx, req) }))
}

func (e *endpoints) attach(ctx context.Context, req *structs.ClientCSIAttachRequest) (*structs.ClientCSIAttachResponse, error) {
	return with(ctx, e, req.PluginID, req.ExternalID, func(c *csimanager.Conn) (*structs.ClientCSIAttachResponse, error) {
		resp, err := c.ControllerPublishVolume(ctx, req)
		if err != nil {
			return nil, err
		}
		return resp, nil
	})
}

func (e *endpoints) detach(ctx context.Context, req *structs.ClientCSIDetachRequest) (*structs.Empty, error) {
	return with(ctx, e, req.PluginID, req.ExternalID, empty(func(c *csimanager.Conn) error {
		return c.ControllerUnpublishVolume(ctx, req)
	}))
}

func (e *endpoints) validate(ctx context.Context, req *structs.ClientCSIValidateRequest) (*structs.Empty, error) {
	return with(ctx, e, req.PluginID, req.ExternalID, empty(func(c *csimanager.Conn) error {
		return c.ValidateVolumeCapabilities(ctx, req)
	}))
}

func (e *endpoints) expand(ctx context.Context, req *structs.ClientCSIExpandRequest) (*structs.ClientCSIExpandResponse, error) {
	return with(ctx, e, req.PluginID, req.ExternalID, func(c *csimanager.Conn) (*structs.ClientCSIExpandResponse, error) {
		resp, err := c.ControllerExpandVolume(ctx, req)
		if err != nil {
			return nil, err
		}
		return resp, nil
	})
}

// list is about no single volume and waits for none.
func (e *endpoints) list(ctx context.Context, req *structs.ClientCSIListRequest) (*structs.ClientCSIListResponse, error) {
	conn, err := e.m.Healthy(structs.CSIKindController, req.PluginID)
	if err != nil {
		return nil, err
	}
	resp, err := conn.ListVolumes(ctx, req)
	return resp, overWire(err)
}

func (e *endpoints) nodeDetach(ctx context.Context, req *structs.ClientCSINodeDetachRequest) (*structs.Empty, error) {
	k := csimanager.VolumeKey{Namespace: structs.NamespaceOr(req.VolumeNamespace), ID: req.VolumeID}
	if err := e.m.Volumes().Detach(ctx, k, req.AllocID, e.running); err != nil {
		return nil, overWire(err)
	}
	return &structs.Empty{}, nil
}
