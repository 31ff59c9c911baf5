package hostpath

import (
	"cmp"
	"maps"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"berth/plugins/hostpath/disk"
)

// The parameters of a volume.
const (
	paramType     = "type" // directory or image
	foreignParams = "csi.storage.k8s.io/"
)

// The least and the usual sizes, in bytes, and the unit of the sizes of images.
const (
	minBlock      = 1 << 20
	usualBlock    = 64 << 20
	minDirectory  = 1 << 20
	blockRounding = 4096
)

// createRequest is a CreateVolume call with its defaults applied.
type createRequest struct {
	name   string
	typ    string
	fsType string
	thick  bool
	size   int64
	limit  int64
	asked  int64 // the requested required_bytes
	params map[string]string
	source source
}

// source is the content of a new volume. A kind of "" means none.
type source struct {
	kind, id string // "volume" or "snapshot"
	disk.Content
}

func (s source) String() string {
	if s.kind == "" {
		return ""
	}
	return s.kind + ":" + s.id
}

// parseCreate checks a request and applies the defaults.
func (d *controller) parseCreate(req *csi.CreateVolumeRequest) (*createRequest, error) {
	if req.GetName() == "" {
		return nil, disk.Invalidf("name is missing")
	}

	if len(req.GetVolumeCapabilities()) == 0 {
		return nil, disk.Invalidf("volume_capabilities are missing")
	}

	if len(req.GetMutableParameters()) > 0 {
		return nil, disk.Invalidf("mutable_parameters are not supported")
	}

	w := &createRequest{
		name:   req.GetName(),
		params: maps.Clone(req.GetParameters()),
	}
	var err error
	w.source, err = d.sourceOf(req.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}

	err = decideParams(w)
	if err == nil {
		err = decideType(w, req.GetVolumeCapabilities())
	}
	if err == nil {
		err = decideSize(w, req.GetCapacityRange())
	}

	return w, err
}

// sourceOf looks up the source of a new volume.
func (d *controller) sourceOf(c *csi.VolumeContentSource) (s source, err error) {
	switch {
	case c == nil:
		return s, nil
	case c.GetVolume() != nil:
		v, err := d.volume(c.GetVolume().GetVolumeId())
		if err != nil {
			return s, err
		}
		return source{"volume", v.ID, v.Content}, nil

	case c.GetSnapshot() != nil:
		n, err := d.snapshot(c.GetSnapshot().GetSnapshotId())
		if err != nil {
			return s, err
		}
		return source{"snapshot", n.ID, n.Content}, nil
	}
	return s, disk.Invalidf("volume_content_source names neither a volume nor a snapshot")
}

func decideParams(w *createRequest) error {
	w.thick = true
	for k, v := range w.params {
		switch {
		case k == paramType && (v == disk.Directory || v == disk.Image):
			w.typ = v
		case k == paramType:
			return disk.Invalidf("parameter type %q: expected directory or image", v)
		case k == disk.ParamProvisioning && (v == "thin" || v == "thick"):
			w.thick = v == "thick"
		case k == disk.ParamProvisioning:
			return disk.Invalidf("parameter provisioning %q: expected thin or thick", v)
		case !strings.HasPrefix(k, foreignParams): // the parameters of other orchestrators mean nothing
			return disk.Invalidf("unknown parameter %q; expected type or provisioning", k)
		}
	}
	return nil
}

// decideType chooses type and file system by the parameters, the capabilities and the source.
func decideType(w *createRequest, capabilities []*csi.VolumeCapability) error {
	mount, err := readCapabilities(w, capabilities)
	if err != nil {
		return err
	}

	// A copy has the type and the file system of its source, because it is not converted.
	from := w.source
	w.typ = cmp.Or(w.typ, from.Type, disk.Directory)
	if from.kind != "" {
		if from.Type != w.typ ||
			(w.fsType != "" && w.fsType != from.FSType) {
			return disk.Invalidf(
				"the source is a %s volume with file system %s: the new volume can only be the same",
				from.Type, cmp.Or(from.FSType, "none"))
		}

		w.fsType = from.FSType
	}

	if w.typ == disk.Image && mount && from.kind == "" {
		w.fsType = cmp.Or(w.fsType, disk.DefaultFileSystem)
	}

	if w.typ == disk.Directory && w.fsType != "" {
		return disk.Invalidf(
			"a directory volume has no file system: leave the type %q out, or request an image", w.fsType)
	}

	_, known := disk.FileSystems[w.fsType]
	if w.fsType != "" && !known {
		return disk.Invalidf("no file-system type %q (there are ext4 and xfs)", w.fsType)
	}

	for _, c := range capabilities {
		err := checkAllowed(w.typ, w.fsType, c)
		if err != nil {
			return disk.Invalidf("%w", err)
		}
	}

	return nil
}

// readCapabilities takes the file system from the capabilities. It makes the volume an image for a block
// device or a type of file system, if the parameters and the source leave that open. mount reports whether
// one of the capabilities is a mount.
func readCapabilities(w *createRequest, capabilities []*csi.VolumeCapability) (mount bool, err error) {
	for _, c := range capabilities {
		if err := checkCapability(c); err != nil {
			return false, err
		}

		fs := c.GetMount().GetFsType()
		if w.fsType != "" && fs != "" && fs != w.fsType {
			return false, disk.Invalidf(
				"two file-system types are requested, %s and %s", w.fsType, fs)
		}

		w.fsType = cmp.Or(w.fsType, fs)
		mount = mount || c.GetMount() != nil
		needsImage := c.GetBlock() != nil || fs != ""
		if w.typ == "" && needsImage && w.source.kind == "" {
			w.typ = disk.Image
		}
	}

	return mount, nil
}

// sizes returns the least and the usual size of a type of volume.
func sizes(typ, fsType string) (least, usual int64) {
	switch {
	case typ == disk.Directory:
		return minDirectory, minDirectory
	case fsType == "":
		return minBlock, usualBlock
	}
	return disk.FileSystems[fsType].Minimum, disk.FileSystems[fsType].Usual
}

func decideSize(w *createRequest, r *csi.CapacityRange) error {
	if err := checkRange(r); err != nil {
		return err
	}

	least, usual := sizes(w.typ, w.fsType)
	w.asked = r.GetRequiredBytes()
	w.limit = r.GetLimitBytes()

	// A copy needs at least the size of its source.
	w.size = max(w.asked, least, w.source.Size)
	if w.asked == 0 && w.source.kind == "" {
		w.size = max(least, usual)
		if w.limit > 0 {
			w.size = max(least, min(usual, w.limit))
		}
	}

	w.size = roundSize(w.typ, w.size, w.limit)
	if w.limit > 0 && w.size > w.limit {
		return disk.Faultf(codes.OutOfRange,
			"the volume needs %d bytes, the limit is %d", w.size, w.limit)
	}

	return nil
}

// maxSize is the largest size of a volume: 1 EiB, far below where rounding up overflows.
const maxSize = 1 << 60

func checkRange(r *csi.CapacityRange) error {
	switch {
	case r.GetRequiredBytes() < 0 || r.GetLimitBytes() < 0:
		return disk.Invalidf("capacity_range is negative")
	case r.GetRequiredBytes() > maxSize:
		return disk.Faultf(codes.OutOfRange,
			"capacity_range: required_bytes are above %d, the largest size of a volume", int64(maxSize))
	case r.GetLimitBytes() > 0 && r.GetRequiredBytes() > r.GetLimitBytes():
		return disk.Invalidf("capacity_range: required_bytes are above limit_bytes")
	}
	return nil
}

// roundSize rounds the size of an image to whole blocks: up, or down if rounding up exceeds the limit.
func roundSize(typ string, size, limit int64) int64 {
	if typ != disk.Image {
		return size
	}
	up := (size + blockRounding - 1) / blockRounding * blockRounding
	// Below a limit between two blocks whole sectors of 512 bytes do: a loop device shows only these.
	if limit > 0 && up > limit && limit/512*512 >= size {
		return limit / 512 * 512
	}
	return up
}

// differenceTo names the field in which an existing volume differs from the request, "" for none.
func (w *createRequest) differenceTo(v *disk.Volume) string {
	switch {
	case v.Type != w.typ || v.FSType != w.fsType:
		return "type"
	// A size that the driver has chosen is no part of the request, which asked for none.
	case v.Size < w.asked || (w.limit > 0 && v.Size > w.limit):
		return "size"
	case v.Source != w.source.String():
		return "source"
	case !maps.Equal(v.Parameters, w.params) &&
		len(v.Parameters)+len(w.params) > 0:
		return "parameters"
	}
	return ""
}
