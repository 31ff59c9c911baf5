package api

import (
	"encoding/json"

	"berth/structs"
)

var (
	volumeGet       = read(structs.CSIVolumeGet, bindVolume, func(a *structs.CSIVolumeGetResponse) any { return redactDetail(a.Volume) })
	volumeClaims    = list(structs.CSIClaimList, bindClaims, func(a *structs.CSIClaimListResponse) []*structs.CSIClaim { return a.Claims })
	volumesExternal = read(structs.CSIVolumeExternal, bindExternal, func(a *structs.CSIVolumeExternalResponse) any {
		return ExternalVolumes{Volumes: a.Volumes, NextToken: a.NextToken, Warnings: a.Warnings}
	})

	volumeRegister   = write(structs.CSIVolumeRegister, bindVolumePut, volumesWritten)
	volumesRegister  = write(structs.CSIVolumeRegister, bindVolumesPut, volumesWritten)
	volumeCreate     = write(structs.CSIVolumeCreate, bindVolumePut, volumesWritten)
	volumeDeregister = write(structs.CSIVolumeDeregister, bindVolumeDeregister, done)
	volumeDelete     = write(structs.CSIVolumeDelete, bindVolumeDelete, done)
	volumeDetach     = write(structs.CSIVolumeDetach, bindVolumeDetach,
		func(a *structs.CSIVolumeDetachResponse) any { return a })
	volumeRetry = write(structs.CSIVolumeRetry, bindVolumeRetry, done)

	csiVolumeList = list(structs.CSIVolumeList, bindVolumeList, func(a *structs.CSIVolumeListResponse) []*structs.CSIVolumeListStub { return a.Volumes })

	pluginList   = ofTypeCSI(list(structs.CSIPluginList, nil, func(a *structs.CSIPluginListResponse) []*structs.CSIPluginListStub { return a.Plugins }))
	pluginGet    = read(structs.CSIPluginGet, bindPlugin, func(a *structs.CSIPluginGetResponse) any { return a.Plugin })
	pluginDelete = write(structs.CSIPluginDelete, bindPluginDelete, done)

	volumeList = ofTypeCSI(csiVolumeList)
)

// ExternalVolumes is one page of volumes as their plugin lists them, in the dialect's shape. Warnings say
// which part of the plugin's storage is missing, and why.
type ExternalVolumes struct {
	Volumes   []*structs.CSIVolumeExternalStub
	NextToken string
	Warnings  []string `json:",omitempty"`
}

// ofTypeCSI serves lists that the dialect has for several types: of the others berth has none.
func ofTypeCSI(list endpoint) endpoint {
	return func(c *call) (any, error) {
		switch t := c.param("type"); t {
		case "", "csi":
			return list(c)
		case "host":
			return []struct{}{}, nil
		default:
			return nil, badParam("type", t, "csi")
		}
	}
}

func bindVolume(c *call, q *structs.CSIVolumeGetRequest) error {
	q.ID = c.id()
	return nil
}

func bindVolumeList(c *call, q *structs.CSIVolumeListRequest) error {
	q.PluginID, q.NodeID = c.param("plugin_id"), c.param("node_id")
	return nil
}

func bindClaims(c *call, q *structs.CSIClaimListRequest) error {
	q.VolumeID, q.NodeID = c.id(), c.param("node_id")
	return nil
}

func bindExternal(c *call, q *structs.CSIVolumeExternalRequest) (err error) {
	if q.PluginID = c.param("plugin_id"); q.PluginID == "" {
		return badParam("plugin_id", "", "the ID of a plugin")
	}
	q.Secrets, err = c.secrets()
	return err
}

// volumeBody is a volume that a client puts. What an answer shows beyond the volume itself may come back
// in it and is dropped: it is put together anew whenever the volume is read.
type volumeBody struct {
	structs.CSIVolume
	AccessMode, AttachmentMode, ReadAllocs, WriteAllocs, Allocations  json.RawMessage
	Claims, Attachments, Schedulable, Blocked                         json.RawMessage
	Warnings, WaitingJobs, ExpandBlocked                              json.RawMessage
	Provider, ProviderVersion, ControllerRequired, ControllersHealthy json.RawMessage
	ControllersExpected, NodesHealthy, NodesExpected                  json.RawMessage
	ResourceExhausted                                                 json.RawMessage
}

func bindVolumesPut(c *call, req *structs.CSIVolumeRegisterRequest) error {
	var b struct {
		Volumes []*volumeBody
		dialectOptions
	}
	if err := c.body(&b); err != nil {
		return err
	}
	if len(b.Volumes) == 0 {
		return structs.Errorf(structs.KindInvalid, "Volumes: expected at least one volume, found none")
	}
	req.Namespace, req.Region = firstOf(req.Namespace, b.Namespace), firstOf(req.Region, b.Region)
	for i, v := range b.Volumes {
		if v == nil {
			return structs.Errorf(structs.KindInvalid, "Volumes[%d]: expected a volume, found null", i)
		}
		v.Namespace = structs.NamespaceOr(firstOf(v.Namespace, req.Namespace))
		req.Volumes = append(req.Volumes, &v.CSIVolume)
	}
	req.Namespace = req.Volumes[0].Namespace
	return nil
}

func bindVolumePut(c *call, req *structs.CSIVolumeRegisterRequest) error {
	if err := bindVolumesPut(c, req); err != nil {
		return err
	}
	if len(req.Volumes) != 1 {
		return structs.Errorf(structs.KindInvalid, "Volumes: expected one volume, found %d", len(req.Volumes))
	}
	if req.Volumes[0].ID == "" {
		req.Volumes[0].ID = c.id()
	}
	return c.sameID("volume", req.Volumes[0].ID)
}

func bindVolumeDeregister(c *call, req *structs.CSIVolumeDeregisterRequest) (err error) {
	req.ID = c.id()
	req.Force, err = c.flag("force")
	return err
}

func bindVolumeDelete(c *call, req *structs.CSIVolumeDeleteRequest) (err error) {
	req.ID = c.id()
	req.Secrets, err = c.secrets()
	return err
}

func bindVolumeDetach(c *call, req *structs.CSIVolumeDetachRequest) (err error) {
	req.VolumeID, req.NodeID = c.id(), c.param("node")
	req.Reason, req.By = c.param("reason"), c.param("by")
	if req.NodeID == "" {
		return badParam("node", "", "the ID of a node")
	}
	req.Force, err = c.flag("force")
	return err
}

func bindVolumeRetry(c *call, req *structs.CSIVolumeRetryRequest) error {
	req.ID = c.id()
	return nil
}

func bindPlugin(c *call, q *structs.CSIPluginGetRequest) error {
	q.ID = c.id()
	return nil
}

func bindPluginDelete(c *call, req *structs.CSIPluginDeleteRequest) error {
	req.ID = c.id()
	return nil
}

// volumesAnswer is the dialect's answer to a put of volumes.
type volumesAnswer struct {
	Volumes  []*structs.CSIVolume
	Warnings string
}

func volumesWritten(a *structs.CSIVolumeRegisterResponse) any {
	answer := volumesAnswer{Volumes: make([]*structs.CSIVolume, len(a.Volumes))}
	for i, v := range a.Volumes {
		c := *v
		c.MountOptions = redactFlags(v.MountOptions)
		answer.Volumes[i] = &c
	}
	return answer
}

// redactDetail hides mount flags. The answer may be shared with the state: it is copied where it changes.
func redactDetail(v *structs.CSIVolumeDetail) *structs.CSIVolumeDetail {
	if v == nil {
		return nil
	}
	c := *v
	c.MountOptions = redactFlags(v.MountOptions)
	c.Attachments = make([]*structs.CSIAttachment, len(v.Attachments))
	for i, a := range v.Attachments {
		b := *a
		b.MountOptions = redactFlags(a.MountOptions)
		c.Attachments[i] = &b
	}
	return &c
}

// redacted stands for mount flags, which may hold secrets; put back, it keeps those stored.
const redacted = "[REDACTED]"

func redactFlags(o *structs.CSIMountOptions) *structs.CSIMountOptions {
	if o == nil || len(o.MountFlags) == 0 {
		return o
	}
	return &structs.CSIMountOptions{FSType: o.FSType, MountFlags: []string{redacted}}
}
