package jobs

import (
	"cmp"
	"context"

	"berth/api"
	"berth/structs"
)

var jobDispatch = api.NewEndpoint(&table, api.Put, "/v1/job/{id}/dispatch",
	api.ServeMethod(structs.JobDispatch, bindJobDispatch, api.Whole))

// DispatchBody has the values of a dispatch.
type DispatchBody struct {
	JobID            string            `json:",omitempty"`
	Payload          []byte            `json:",omitempty"`
	Meta             map[string]string `json:",omitempty"`
	IdPrefixTemplate string            `json:",omitempty"`
	Priority         int               `json:",omitempty"`
	IdempotencyToken string            `json:",omitempty"`
}

func bindJobDispatch(c *api.Call, req *structs.JobDispatchRequest) error {
	var b struct {
		DispatchBody
		api.DialectOptions
	}
	err := c.DecodeOptionalBody(&b)
	if err != nil {
		return err
	}
	req.JobID = c.ID()
	req.Payload = b.Payload
	req.Meta = b.Meta
	req.IDPrefixTemplate = b.IdPrefixTemplate
	req.Priority = b.Priority
	req.IdempotencyToken = cmp.Or(b.IdempotencyToken, c.Param("idempotency_token"))
	return c.SameID("job", b.JobID)
}

// Dispatch starts a child of a parameterized job.
func Dispatch(ctx context.Context, c *api.Client, id string, b DispatchBody) (
	*structs.JobDispatchResponse, error,
) {
	return jobDispatch.Send(ctx, c, api.Request{ID: id, Body: b})
}

var jobForce = api.NewEndpoint(&table, api.Put, "/v1/job/{id}/periodic/force",
	api.ServeMethod(structs.PeriodicForce,
		api.WithID(func(req *structs.PeriodicForceRequest, id string) { req.JobID = id }), api.Whole))

// ForcePeriodic launches a child of a periodic job now.
func ForcePeriodic(ctx context.Context, c *api.Client, id string) (*structs.PeriodicForceResponse, error) {
	return jobForce.Send(ctx, c, api.Request{ID: id})
}

var jobRevert = api.NewEndpoint(&table, api.Put, "/v1/job/{id}/revert",
	api.ServeMethod(structs.JobRevert, bindJobRevert, api.Whole))

// jobRevertBody has the version and, if it is set, the version that the job must have.
type jobRevertBody struct {
	JobID               string
	JobVersion          *uint64
	EnforcePriorVersion *uint64
	ConsulToken         string `json:",omitempty"`
}

func bindJobRevert(c *api.Call, req *structs.JobRevertRequest) error {
	var b struct {
		jobRevertBody
		VaultToken string
		api.DialectOptions
	}

	err := c.DecodeBody(&b)
	switch {
	case err != nil:
		return err
	case b.JobVersion == nil:
		return api.Missing("JobVersion", "the number of a version of the job")
	}

	req.JobID = c.ID()
	req.JobVersion = *b.JobVersion
	req.EnforcePriorVersion = b.EnforcePriorVersion
	req.ConsulToken = structs.Secret(b.ConsulToken)
	return c.SameID("job", b.JobID)
}

// RevertOptions has the version that the job must have, if it is not nil, and the token of
// JobRegisterOptions.
type RevertOptions struct {
	PriorVersion *uint64
	ConsulToken  structs.Secret
}

// Revert makes an earlier version of a job the newest one.
func Revert(ctx context.Context, c *api.Client, id string, version uint64, o RevertOptions) (
	*structs.JobRegisterResponse, error,
) {
	return jobRevert.Send(ctx, c, api.Request{ID: id, Body: jobRevertBody{
		JobID:               id,
		JobVersion:          &version,
		EnforcePriorVersion: o.PriorVersion,
		ConsulToken:         string(o.ConsulToken),
	}})
}

var jobScale = api.NewEndpoint(&table, api.Put, "/v1/job/{id}/scale",
	api.ServeMethod(structs.JobScale, bindJobScale, api.Whole))

// jobScaleBody has the new count, or none, and what the event tells.
type jobScaleBody struct {
	Count          *int64
	Target         map[string]string
	Message        string
	Error          bool
	Meta           map[string]any
	PolicyOverride bool
	JobModifyIndex uint64
}

func bindJobScale(c *api.Call, req *structs.JobScaleRequest) error {
	var b struct {
		jobScaleBody
		api.DialectOptions
	}
	if err := c.DecodeBody(&b); err != nil {
		return err
	}
	req.JobID = c.ID()
	req.Message = b.Message
	req.Error = b.Error
	req.Meta = b.Meta
	req.Group = b.Target["Group"]
	req.Count = b.Count
	req.JobModifyIndex = b.JobModifyIndex
	return c.SameID("job", b.Target["Job"])
}

// Scale changes the count of a group, or only stores an event of it if the event has no count. Of the
// event it sends Count, Message, Error and Meta.
func Scale(ctx context.Context, c *api.Client, id, group string, event structs.ScalingEvent) (
	*structs.JobRegisterResponse, error,
) {
	return jobScale.Send(ctx, c, api.Request{ID: id, Body: jobScaleBody{
		Count:   event.Count,
		Target:  map[string]string{"Group": group},
		Message: event.Message,
		Error:   event.Error,
		Meta:    event.Meta,
	}})
}

var jobScaleStatus = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/scale",
	api.ServeMethod(structs.JobScaleStatus, bindJob,
		func(a *structs.JobScaleStatusResponse) *structs.JobScaleCounts {
			return a.JobScaleStatus
		}))

// ScaleStatus reads the counts of the groups of a job.
func ScaleStatus(ctx context.Context, c *api.Client, id string) (*structs.JobScaleCounts, error) {
	return jobScaleStatus.Send(ctx, c, api.Request{ID: id})
}
