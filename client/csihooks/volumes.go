package csihooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/csimanager"
	"berth/client/hook"
	"berth/csi"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// VolumesConfig is what the Volumes hooks of a node share.
type VolumesConfig struct {
	Volumes *csimanager.Volumes
	Servers rpc.Caller
	Node    func() (id, secretID string)
	Logger  hclog.Logger
	// Progress, if not nil, is told what an allocation waits for, "" once it waits for nothing more.
	Progress func(allocID, reason string)
	// RetryMin and RetryMax pace calls to the servers; 250 ms, growing to 15 s.
	RetryMin, RetryMax time.Duration
	// ConfirmAfter is how old the servers' word on a claim may be when the plugin is called: ConfirmAfter.
	// Nobody is to stage a volume that was taken away while it waited for something else.
	ConfirmAfter time.Duration
	// Now is the clock by which that age is measured; nil is time.Now.
	Now func() time.Time
}

// claimWait bounds one wait for news of a claim. After a restore the servers may have an older index than
// that after which news are waited for.
const claimWait = time.Minute

// ConfirmAfter is how old the servers' word on a claim may be when the plugin is called.
const ConfirmAfter = time.Second

// notFoundTries is how often a plugin is asked again that does not know a volume, after the servers have
// said that it exists.
const notFoundTries = 3

// NewVolumes makes the hook that brings an allocation's CSI volumes to it.
func NewVolumes(cfg VolumesConfig, env *hook.AllocEnv) hook.Alloc {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string, string) {}
	}
	if cfg.RetryMin == 0 {
		cfg.RetryMin, cfg.RetryMax = 250*time.Millisecond, 15*time.Second
	}
	if cfg.ConfirmAfter == 0 {
		cfg.ConfirmAfter = ConfirmAfter
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &volumes{VolumesConfig: cfg, alloc: env.Alloc, group: env.Group,
		logger: cfg.Logger.Named("csi_volumes").With("alloc_id", env.Alloc.ID)}
}

type volumes struct {
	VolumesConfig
	alloc  *structs.Allocation
	group  *structs.TaskGroup
	logger hclog.Logger
}

// want is one volume that the allocation wants, under one alias or more.
type want struct {
	csimanager.VolumeKey
	request *structs.VolumeRequest
	aliases []string
}

// Name implements hook.Alloc.
func (*volumes) Name() string { return "csi_volumes" }

// Up claims the volumes, waits until each may be used, and brings it here. What an earlier agent brought
// here already is recognised without asking anybody.
func (h *volumes) Up(ctx context.Context, env *hook.AllocEnv) error {
	wants, err := h.wants()
	if err != nil || len(wants) == 0 {
		return err
	}
	ready, err := h.recognise(wants)
	if err != nil {
		return err
	}
	if len(ready) < len(wants) {
		if err := h.claim(ctx, wants); err != nil {
			return err
		}
		if ready, err = h.bring(ctx, wants); err != nil {
			return err
		}
		h.Progress(h.alloc.ID, "")
	}
	for _, w := range wants {
		for _, alias := range w.aliases {
			env.SetVolume(alias, ready[w.VolumeKey])
		}
	}
	return nil
}

// wants are the group's CSI volumes, in the order of their aliases.
func (h *volumes) wants() ([]*want, error) {
	var wants []*want
	for _, alias := range slices.Sorted(maps.Keys(h.group.Volumes)) {
		r := h.group.Volumes[alias]
		if r.Type != "csi" {
			continue
		}
		k := csimanager.VolumeKey{Namespace: structs.NamespaceOr(h.alloc.Namespace), ID: r.VolumeID(h.alloc.Index())}
		at := slices.IndexFunc(wants, func(w *want) bool { return w.VolumeKey == k })
		if at < 0 {
			wants = append(wants, &want{k, r, []string{alias}})
			continue
		}
		w := wants[at]
		if !sameUse(w.request, r) {
			return nil, structs.Errorf(structs.KindInvalid, "volume blocks %q and %q of group %q name the same volume %s in different modes",
				w.aliases[0], alias, h.group.Name, k)
		}
		w.aliases = append(w.aliases, alias)
	}
	return wants, nil
}

func sameUse(a, b *structs.VolumeRequest) bool {
	ao, bo := (&structs.CSIMountOptions{}).Merge(a.MountOptions), (&structs.CSIMountOptions{}).Merge(b.MountOptions)
	return a.ReadOnly == b.ReadOnly && a.AccessMode == b.AccessMode && a.AttachmentMode == b.AttachmentMode &&
		ao.FSType == bo.FSType && slices.Equal(ao.MountFlags, bo.MountFlags)
}

// recognise finds those that are published already.
func (h *volumes) recognise(wants []*want) (map[csimanager.VolumeKey]hook.VolumeMount, error) {
	ready := map[csimanager.VolumeKey]hook.VolumeMount{}
	for _, w := range wants {
		m, ok, err := h.Volumes.Published(w.VolumeKey, h.alloc.ID)
		if err != nil {
			return nil, err
		}
		if ok {
			ready[w.VolumeKey] = m
		}
	}
	return ready, nil
}

// claim takes every claim in one request, each on record before it is asked for.
func (h *volumes) claim(ctx context.Context, wants []*want) error {
	nodeID, secret := h.Node()
	req := &structs.CSIVolumeClaimRequest{NodeID: nodeID, SecretID: secret}
	req.Namespace = structs.NamespaceOr(h.alloc.Namespace)
	for _, w := range wants {
		if err := h.Volumes.Claim(w.VolumeKey, h.alloc.ID); err != nil {
			return err
		}
		req.Claims = append(req.Claims, &structs.CSIClaim{
			Namespace: w.Namespace, VolumeID: w.ID, AllocID: h.alloc.ID, NodeID: nodeID,
			JobID: h.alloc.JobID, TaskGroup: h.alloc.TaskGroup, Mode: mode(w.request),
			AccessMode: w.request.AccessMode, AttachmentMode: w.request.AttachmentMode,
		})
	}
	_, err := ask(ctx, h, "claiming the volumes", func() (*structs.CSIVolumeClaimResponse, error) {
		return rpc.Call(ctx, h.Servers, structs.CSIVolumeClaim, req)
	})
	return err
}

func mode(r *structs.VolumeRequest) string {
	if r.ReadOnly || r.AccessMode.ReaderOnly() {
		return structs.ClaimRead
	}
	return structs.ClaimWrite
}

// ask asks the servers until there is an answer or a failure that is final.
func ask[T any](ctx context.Context, h *volumes, doing string, call func() (*T, error)) (*T, error) {
	pause := backoff.Backoff{Min: h.RetryMin, Max: h.RetryMax}
	for {
		resp, err := call()
		if err == nil {
			return resp, nil
		}
		err = fmt.Errorf("%s: %w", doing, err)
		if structs.KindOf(err).Final() {
			return nil, err
		}
		h.Progress(h.alloc.ID, err.Error())
		if !backoff.Sleep(ctx, pause.After(err)) {
			return nil, err
		}
	}
}

// bring brings all volumes here at the same time; the first that fails for good ends the others' waiting.
func (h *volumes) bring(ctx context.Context, wants []*want) (map[csimanager.VolumeKey]hook.VolumeMount, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		errs  []error
		ready = map[csimanager.VolumeKey]hook.VolumeMount{}
	)
	for _, w := range wants {
		wg.Go(func() {
			m, err := h.bringOne(ctx, w)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ready[w.VolumeKey] = m
				return
			}
			if ctx.Err() == nil || len(errs) == 0 {
				errs = append(errs, err) // what is cut short by another's failure says nothing
			}
			cancel()
		})
	}
	wg.Wait()
	return ready, errors.Join(errs...)
}

func (h *volumes) bringOne(ctx context.Context, w *want) (hook.VolumeMount, error) {
	pause := backoff.Backoff{Min: h.RetryMin, Max: h.RetryMax}
	for try := 1; ; try++ {
		claim, asked, err := h.await(ctx, w)
		if err != nil {
			return hook.VolumeMount{}, err
		}
		m, err := h.Volumes.Up(ctx, h.use(w, claim, asked), func(reason string) {
			h.Progress(h.alloc.ID, fmt.Sprintf("volume %s: %s", w.VolumeKey, reason))
		})
		if errors.Is(err, csimanager.ErrOtherDriver) && ctx.Err() == nil {
			// The servers may know more by the next try.
			h.Progress(h.alloc.ID, err.Error())
			pause.Wait(ctx)
			continue
		}
		// Not-found has to be verified before another try (CSI spec, errors of NodeStageVolume): a claim
		// that is still ready says that the volume exists.
		if csi.Code(err) != "NotFound" || try == notFoundTries || !backoff.Sleep(ctx, time.Duration(try)*h.RetryMin) {
			return m, err
		}
	}
}

// await waits until the claim is granted and the volume attached. It also returns when that was asked for:
// of a question that waited, the answer may be as old, for the server may have been cut off meanwhile.
func (h *volumes) await(ctx context.Context, w *want) (resp *structs.CSIClaimGetResponse, asked time.Time, err error) {
	req := h.claimRequest(w)
	req.MaxWait = claimWait
	pause := backoff.Backoff{Min: h.RetryMin, Max: h.RetryMax}
	for {
		asked = h.Now()
		resp, err = ask(ctx, h, fmt.Sprintf("volume %s: waiting for the claim", w.VolumeKey), func() (*structs.CSIClaimGetResponse, error) {
			resp, err := rpc.Call(ctx, h.Servers, structs.CSIClaimGet, req)
			if err != nil {
				req.MinIndex = 0 // it may be of a state that the servers do not have any more
			}
			return resp, err
		})
		switch {
		case err != nil:
			return nil, asked, err
		case resp.Claim == nil:
			return nil, asked, structs.Errorf(structs.KindNotFound, "volume %s: the claim is gone", w.VolumeKey)
		case resp.Ready && resp.Volume != nil:
			return resp, asked, nil
		}
		h.Progress(h.alloc.ID, fmt.Sprintf("volume %s: %s", w.VolumeKey, resp.Blocked))
		if resp.Index > req.MinIndex {
			req.MinIndex = resp.Index
			pause.Reset()
			continue
		}
		// The wait ended without news, or the server does not wait: do not run in circles.
		if !pause.Wait(ctx) {
			return nil, asked, structs.Errorf(structs.KindTimeout, "volume %s: %s: %w", w.VolumeKey, resp.Blocked, ctx.Err())
		}
	}
}

func (h *volumes) claimRequest(w *want) *structs.CSIClaimGetRequest {
	nodeID, secret := h.Node()
	req := &structs.CSIClaimGetRequest{VolumeID: w.ID, AllocID: h.alloc.ID, NodeID: nodeID, SecretID: secret}
	req.Namespace = w.Namespace
	return req
}

func (h *volumes) use(w *want, r *structs.CSIClaimGetResponse, asked time.Time) *csimanager.Use {
	u := &csimanager.Use{
		VolumeKey: w.VolumeKey, AllocID: h.alloc.ID,
		PluginID: r.Volume.PluginID, Provider: r.Provider, ExternalID: r.Volume.ExternalID,
		AccessMode: w.request.AccessMode, AttachmentMode: w.request.AttachmentMode, ReadOnly: mode(w.request) == structs.ClaimRead,
		VolumeContext: r.Volume.Context, Secrets: r.Volume.Secrets,
		Grant: r.Claim.GrantIndex, Confirm: h.confirm(w, r.Claim.GrantIndex, asked),
		ExpandBytes: r.Claim.ExpandBytes, Expanded: h.expanded(w, r.Claim),
	}
	if u.AttachmentMode == structs.CSIFileSystem {
		u.MountOptions = r.Volume.MountOptions.Merge(w.request.MountOptions)
	}
	if r.Attachment != nil {
		u.PublishContext, u.ExternalNodeID = r.Attachment.PublishContext, r.Attachment.ExternalNodeID
	}
	return u
}

// confirmTimeout bounds the question whether a claim still holds.
const confirmTimeout = 15 * time.Second

// confirm asks whether the claim still holds as it was granted, where what the servers said of it is old.
func (h *volumes) confirm(w *want, grant uint64, asked time.Time) func(context.Context) error {
	return func(ctx context.Context) error {
		if h.Now().Sub(asked) < h.ConfirmAfter {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
		defer cancel()
		again := h.Now()
		resp, err := rpc.Call(ctx, h.Servers, structs.CSIClaimGet, h.claimRequest(w))
		switch {
		case err != nil:
			return fmt.Errorf("confirming the claim: %w", err)
		case resp.Claim == nil || resp.Claim.State != structs.ClaimGranted || resp.Claim.GrantIndex != grant:
			return structs.Errorf(structs.KindConflict, "the claim was taken away before the volume was brought here")
		case !resp.Ready:
			return structs.Errorf(structs.KindUnavailable, "confirming the claim: %s", resp.Blocked)
		}
		asked = again
		return nil
	}
}

// expanded tells the servers what came of growing what is on a volume. Should they not hear it, they have the
// node do it once more.
func (h *volumes) expanded(w *want, claim *structs.CSIClaim) func(context.Context, int64, error) {
	return func(ctx context.Context, capacity int64, err error) {
		nodeID, secret := h.Node()
		req := &structs.CSINodeExpandOutcome{
			VolumeID: w.ID, AllocID: h.alloc.ID, NodeID: nodeID, SecretID: secret,
			RowIndex: claim.CreateIndex, Bytes: claim.ExpandBytes, Capacity: capacity,
		}
		req.Namespace = w.Namespace
		if err != nil {
			h.logger.Warn("volume is used at its old size", "volume", w.VolumeKey.String(), "error", err)
			req.Err = &structs.OperationError{
				Message: err.Error(), Kind: structs.KindOf(err), Code: structs.CodeOf(err),
				Time: time.Now().UnixNano(),
			}
		}
		ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
		defer cancel()
		if _, err := rpc.Call(ctx, h.Servers, structs.CSIVolumeNodeExpanded, req); err != nil {
			h.logger.Warn("failed to report a volume's size", "volume", w.VolumeKey.String(), "error", err)
		}
	}
}

// Down takes the volumes back, each past the others' errors, and then releases the claims of those that
// are entirely gone from this node.
func (h *volumes) Down(ctx context.Context) error {
	keys, err := h.Volumes.ForAlloc(h.alloc.ID)
	errs := []error{err}
	var gone []csimanager.VolumeKey
	for _, k := range slices.Backward(keys) {
		if err := h.Volumes.Down(ctx, k, h.alloc.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		gone = append(gone, k)
	}
	if len(gone) > 0 {
		errs = append(errs, h.release(ctx, gone))
	}
	return errors.Join(errs...)
}

func (h *volumes) release(ctx context.Context, keys []csimanager.VolumeKey) error {
	nodeID, secret := h.Node()
	req := &structs.CSIVolumeUnpublishRequest{NodeID: nodeID, SecretID: secret}
	req.Namespace = structs.NamespaceOr(h.alloc.Namespace)
	for _, k := range keys {
		key := structs.CSIClaimKey{Namespace: k.Namespace, VolumeID: k.ID, AllocID: h.alloc.ID}
		req.Claims = append(req.Claims, key)
		turned, err := h.Volumes.TurnedReadOnly(k, h.alloc.ID)
		if err != nil {
			return err
		}
		if turned {
			req.TurnedReadOnly = append(req.TurnedReadOnly, key)
		}
	}
	if _, err := rpc.Call(ctx, h.Servers, structs.CSIVolumeUnpublish, req); err != nil && !structs.IsKind(err, structs.KindNotFound) {
		return fmt.Errorf("releasing the claims: %w", err)
	}
	var errs []error
	for _, k := range keys {
		errs = append(errs, h.Volumes.Forget(k, h.alloc.ID))
	}
	return errors.Join(errs...)
}
