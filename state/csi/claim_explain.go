package csi

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// This file explains why claims wait. The rows by class (claim_queue.go, claim_counts.go) give the blocking
// claims. The cost of one reason does not grow with the queue, and the reasons of a whole queue cost one
// walk.

// manyHolders is the number of claims that a reason names.
const manyHolders = 3

// farAhead is the number of claims ahead that a reason counts.
const farAhead = 100

// ClaimBlocked describes why a claim waits, or why a granted one cannot be used yet. It returns "" when the
// volume can be staged. The text names the holders and, if the wait does not end by itself, the remedy.
func ClaimBlocked(tx mvcc.Reader, c *structs.CSIClaim) string {
	return Reasons(tx)(c)
}

// Reasons returns ClaimBlocked for a list of claims. They come volume by volume and in the order of each
// volume's queue, without a gap after the first. The list may start again at any claim.
func Reasons(tx mvcc.Reader) func(*structs.CSIClaim) string {
	next := Causes(tx)
	return func(c *structs.CSIClaim) string { return next(c).CauseText }
}

// Causes is like Reasons, with the kind of each reason. A granted claim that can be used has none.
func Causes(tx mvcc.Reader) func(*structs.CSIClaim) structs.ClaimCause {
	r := reasons{Reader: tx}
	return r.next
}

// reasons has the facts about a volume's claims up to the last requested one.
type reasons struct {
	mvcc.Reader
	volume    *structs.CSIVolume
	block     structs.ClaimCause // of the volume itself
	counts    []structs.CSIClassCount
	conflicts map[structs.ClaimClass]*conflicts // by the class of the waiting claim
	last      *structs.CSIClaim
}

// conflicts has the claims that block waiting claims of one class.
type conflicts struct {
	held    string              // describes the granted ones
	ahead   []*structs.CSIClaim // the first waiting ones
	counted int                 // the number of waiting ones, up to one more than farAhead
}

func (r *reasons) next(c *structs.CSIClaim) structs.ClaimCause {
	v := r.volume

	// The claims ahead are collected as they pass. So a step back in the queue starts anew, like another
	// volume.
	if v == nil || v.ID != c.VolumeID ||
		v.Namespace != c.Namespace ||
		InQueueOrder(c, r.last) <= 0 {
		v = Volume(r, c.Namespace, c.VolumeID)
		if v == nil {
			return structs.ClaimCause{
				Cause:     structs.CauseVolume,
				CauseText: fmt.Sprintf("volume %s is gone", c.VolumeID),
			}
		}

		r.volume = v
		r.block = volumeCause(r, v)
		r.counts = ClassCounts(r, v.Namespace, v.ID)
		r.conflicts = map[structs.ClaimClass]*conflicts{}
	}

	r.last = c
	if c.State == structs.ClaimGranted {
		return causeOf(structs.CauseAttach, attachBlock(r, c))
	}

	// Whatever it waits for itself, it is ahead of the claims that follow.
	defer r.noteAhead(c)

	if r.block.Cause != "" {
		return r.block
	}

	why := cmp.Or(r.conflict(c), boundReason(r, r.volume, c))
	if why != "" {
		return causeOf(structs.CauseClaims, why)
	}

	return cmp.Or(
		causeOf(structs.CauseAttachment, ClassBlock(r, r.volume, c.Class())),
		causeOf(structs.CauseNode, NodeBlock(r, r.volume, c)),
		causeOf(structs.CauseNext, "it is about to be granted"),
	)
}

// causeOf returns a cause with its text, and none without a text.
func causeOf(cause, text string) structs.ClaimCause {
	if text == "" {
		return structs.ClaimCause{}
	}
	return structs.ClaimCause{Cause: cause, CauseText: text}
}

// volumeCause is VolumeBlock with the kind of the reason.
func volumeCause(tx mvcc.Reader, v *structs.CSIVolume) structs.ClaimCause {
	p := Plugin(tx, v.PluginID)
	cause := structs.CausePlugin
	if v.State != structs.VolumeReady || v.Marked() {
		cause = structs.CauseVolume
	}
	return cmp.Or(
		causeOf(cause, blockOf(v, p)),
		causeOf(structs.CauseExpansion, expandsOffline(tx, v, p)),
	)
}

// conflict names the claims that the claim conflicts with: those granted and those ahead.
func (r *reasons) conflict(c *structs.CSIClaim) string {
	k := c.Class()
	w := r.conflicts[k]

	// The first claim of a class reads the rows ahead of it. For the later ones noteAhead adds what has
	// passed since.
	if w == nil {
		w = &conflicts{held: r.holders(k)}
		for _, o := range classesOf(r.counts, structs.ClaimWaiting) {
			if o.Conflicts(k) {
				w.findAhead(r, c, o)
			}
		}

		r.conflicts[k] = w
	}

	return w.describe()
}

// noteAhead records a claim that waits ahead of the claims that follow.
func (r *reasons) noteAhead(c *structs.CSIClaim) {
	for k, w := range r.conflicts {
		if k.Conflicts(c.Class()) {
			w.addAhead(c)
		}
	}
}

// findAhead finds the claims of a class that wait ahead of c.
func (w *conflicts) findAhead(tx mvcc.Reader, c *structs.CSIClaim, o structs.ClaimClass) {
	rows := schema.ClaimsByClass.Cursor(tx, c.Namespace, c.VolumeID,
		structs.ClaimWaiting, schema.ClassKey(o))
	for seen := 0; w.counted <= farAhead; seen++ {
		other := rows.Next()
		if other == nil || InQueueOrder(other, c) >= 0 {
			break
		}

		w.counted++
		if seen < manyHolders {
			w.ahead = append(w.ahead, other)
		}
	}

	// Each class gives its first claims, and the first ones of all classes stay.
	slices.SortFunc(w.ahead, InQueueOrder)
	w.ahead = w.ahead[:min(len(w.ahead), manyHolders)]
}

// addAhead counts a claim behind all that are counted, up to the bound.
func (w *conflicts) addAhead(c *structs.CSIClaim) {
	if w.counted > farAhead {
		return
	}
	w.counted++
	if len(w.ahead) < manyHolders {
		w.ahead = append(w.ahead, c)
	}
}

func (w *conflicts) describe() string {
	if w.counted == 0 {
		return w.held
	}

	var names []string
	for _, c := range w.ahead {
		names = append(names, "allocation "+c.AllocID)
	}

	text := "ahead in the queue: " + ListNames(names, w.counted)
	if w.counted > farAhead {
		text = fmt.Sprintf("ahead in the queue: %s and more than %d more",
			strings.Join(names, ", "), farAhead-len(names))
	}

	if w.held != "" {
		text = w.held + "; " + text
	}

	return text
}

// ListNames lists the first names, with the number of the others. of is the number of all.
func ListNames(names []string, of int) string {
	names = names[:min(len(names), manyHolders)]
	text := strings.Join(names, ", ")
	more := of - len(names)
	if more > 0 {
		text = fmt.Sprintf("%s and %d more", text, more)
	}
	return text
}

// holders describes the granted claims that exclude claims of a class, and returns "" if there are none.
func (r *reasons) holders(k structs.ClaimClass) string {
	var names []string
	count := 0
	for _, n := range r.counts {
		if n.Granted == 0 || !n.Class().Conflicts(k) {
			continue
		}

		count += n.Granted
		for _, c := range someHolders(r, r.volume, n.Class()) {
			// The count is of all, and the text names the first.
			if len(names) < manyHolders {
				names = append(names, DescribeHolder(r, c))
			}
		}
	}

	if count == 0 {
		return ""
	}

	return ListNames(names, count)
}

// someHolders returns a few of a volume's granted claims of a class, and all of them if they are few. Granted
// claims outside the index of classes are among the waiting claims. They are found once per row of the queue
// counts.
func someHolders(
	tx mvcc.Reader,
	v *structs.CSIVolume,
	k structs.ClaimClass,
) (some []*structs.CSIClaim) {
	l := schema.ClaimQueues.Get(tx, v.Namespace, v.ID)
	if l == nil {
		return nil
	}

	if k.Conflicts(k) {
		rows := schema.ClaimsByClass.Scan(tx, v.Namespace, v.ID, structs.ClaimGranted, schema.ClassKey(k))
		for c := range rows {
			some = append(some, c)
			if len(some) == manyHolders {
				break
			}
		}

		return some
	}

	// Goroutines share the cache without a lock. If two of them miss, both search and find the same.
	known := heldQueues.get(l)
	if known == nil {
		known = findHolders(tx, l)
		heldQueues.put(l, known)
	}

	// The cache has names alone: the claims come from the caller's snapshot.
	for _, alloc := range known[k] {
		if c := Claim(tx, v.Namespace, v.ID, alloc); c != nil {
			some = append(some, c)
		}
	}

	return some
}

// findHolders names a few allocations with granted claims of each class.
func findHolders(tx mvcc.Reader, l *structs.CSIClaimQueueRow) map[structs.ClaimClass][]string {
	wanted := 0
	for _, n := range l.Classes {
		wanted += min(n.Granted, manyHolders)
	}

	found := map[structs.ClaimClass][]string{}
	for c := range schema.Claims.Scan(tx, l.Namespace, l.VolumeID) {
		if wanted == 0 {
			break
		}

		k := c.Class()
		if c.State == structs.ClaimGranted &&
			len(found[k]) < manyHolders {
			found[k] = append(found[k], c.AllocID)
			wanted--
		}
	}

	return found
}

// holderCache keeps the holders of the last requested queue rows. Rows with equal hashes replace each other.
type holderCache [1 << 6]atomic.Pointer[heldQueue]

// heldQueues serves all stores, because no two of them have a row in common.
var (
	heldQueues holderCache
	heldSeed   = maphash.MakeSeed()
)

// heldQueue has the holders of a queue row. A row never changes, so they stay true.
type heldQueue struct {
	row     *structs.CSIClaimQueueRow
	holders map[structs.ClaimClass][]string
}

// bucket returns the place of a volume, which it shares with other volumes.
func (h *holderCache) bucket(l *structs.CSIClaimQueueRow) *atomic.Pointer[heldQueue] {
	hash := maphash.Comparable(heldSeed, VolumeKey{Namespace: l.Namespace, VolumeID: l.VolumeID})
	return &h[hash%uint64(len(h))]
}

// get returns the holders of a row, nil if they are not known.
func (h *holderCache) get(l *structs.CSIClaimQueueRow) map[structs.ClaimClass][]string {
	known := h.bucket(l).Load()
	if known != nil && known.row == l {
		return known.holders
	}
	return nil
}

// put replaces what the place has, of this volume or of another one.
func (h *holderCache) put(l *structs.CSIClaimQueueRow, holders map[structs.ClaimClass][]string) {
	h.bucket(l).Store(&heldQueue{l, holders})
}

// keepHolders keeps the holders of a row for the row that replaces it, which has the same granted claims.
func keepHolders(old, now *structs.CSIClaimQueueRow) {
	holders := heldQueues.get(old)
	if holders != nil {
		heldQueues.put(now, holders)
	}
}
