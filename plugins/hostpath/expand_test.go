package hostpath

import (
	"io"
	"os"
	"testing"

	"berth/csi"
	"berth/plugins/hostpath/disk"
	"berth/structs/nodecalls"
)

func TestExpand_Unused(t *testing.T) {
	forEachKind(t, append(kinds, anXFS), func(t *testing.T, k kind) {
		w := newRunningFixture(t)
		v := w.volume(k, "v")
		v.stageAndPublish()
		w.must("write", v.write(v.target, "precious"))
		w.must("unpublish", v.doUnpublish(v.target))
		w.must("unstage", v.doUnstage())
		more := k.size * 2
		needNode, err := v.doExpand(more)
		if err != nil || needNode {
			t.Fatalf("expand: got node expansion %v, %v; want false", needNode, err)
		}
		v.stageAndPublish()
		v.mustHold(v.target, "precious")
		v.hasGrown(more)
		v.remove()
	})
}

// hasGrown checks that the visible size at the target is about the volume's.
func (o *testVolume) hasGrown(size int64) {
	o.t.Helper()
	if o.typ == disk.Directory {
		return
	}
	got := int64(0)
	if o.block {
		total, err := o.totalBytes()
		o.must("stats", err)
		f, err := os.Open(o.target)
		o.must("open", err)
		defer f.Close()
		got, err = f.Seek(0, io.SeekEnd)
		if err != nil || total != got {
			o.t.Fatalf("the device has %d bytes (%v), its statistics say %d", got, err, total)
		}
	} else {
		got = fsSize(o.t, o.target)
	}
	if got < size*8/10 {
		o.t.Fatalf("the target shows %d bytes of %d", got, size)
	}
}

func TestExpand_InUse(t *testing.T) {
	forEachKind(t, append(kinds, anXFS), func(t *testing.T, k kind) {
		w := newRunningFixture(t)
		v := w.volume(k, "v")
		v.stageAndPublish()
		w.must("write", v.write(v.target, "precious"))
		more := k.size * 2
		needNode, err := v.doExpand(more)
		if err != nil || needNode != (k.typ == disk.Image) {
			t.Fatalf("expand: got node expansion %v, %v", needNode, err)
		}
		err = v.doNodeExpand(more)
		if k.fsType == "ext4" && csi.Code(err) == "FailedPrecondition" {
			// The driver has no right to grow it while it is mounted. The next stage grows it.
			w.must("unpublish", v.doUnpublish(v.target))
			w.must("unstage", v.doUnstage())
			v.stageAndPublish()
			err = v.doNodeExpand(more)
		}
		w.must("node expand", err)
		v.hasGrown(more)
		v.mustHold(v.target, "precious")
		smaller := nodecalls.CSICapacityRange{
			RequiredBytes: 1 << 20,
			LimitBytes:    2 << 20,
		}
		_, err = w.ControllerExpandVolume(t.Context(), &nodecalls.ClientCSIExpandRequest{
			ExternalID: v.id,
			Capacity:   smaller,
		})
		w.mustFail("shrink", "OutOfRange", err)
		v.remove()
	})
}
