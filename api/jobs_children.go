package api

import (
	"cmp"
	"context"

	"berth/structs"
)

var jobDispatch = NewEndpoint(Put, "/v1/job/{id}/dispatch",
	ServeMethod(structs.JobDispatch, bindJobDispatch, Whole))

// JobDispatchBody has the values of a dispatch.
type JobDispatchBody struct {
	JobID            string            `json:",omitempty"`
	Payload          []byte            `json:",omitempty"`
	Meta             map[string]string `json:",omitempty"`
	IdPrefixTemplate string            `json:",omitempty"`
	Priority         int               `json:",omitempty"`
	IdempotencyToken string            `json:",omitempty"`
}

func bindJobDispatch(c *Call, req *structs.JobDispatchRequest) error {
	var b struct {
		JobDispatchBody
		DialectOptions
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

// JobDispatch starts a child of a parameterized job.
func (c *Client) JobDispatch(ctx context.Context, id string, b JobDispatchBody) (
	*structs.JobDispatchResponse, error,
) {
	return jobDispatch.Send(ctx, c, Request{ID: id, Body: b})
}

var jobForce = NewEndpoint(Put, "/v1/job/{id}/periodic/force",
	ServeMethod(structs.PeriodicForce,
		WithID(func(req *structs.PeriodicForceRequest, id string) { req.JobID = id }), Whole))

// JobPeriodicForce launches a child of a periodic job now.
func (c *Client) JobPeriodicForce(ctx context.Context, id string) (*structs.PeriodicForceResponse, error) {
	return jobForce.Send(ctx, c, Request{ID: id})
}

var jobRevert = NewEndpoint(Put, "/v1/job/{id}/revert",
	ServeMethod(structs.JobRevert, bindJobRevert, Whole))

// jobRevertBody has the version and, if it is set, the version that the job must have.
type jobRevertBody struct {
	JobID               string
	JobVersion          *uint64
	EnforcePriorVersion *uint64
	ConsulToken         string `json:",omitempty"`
}

func bindJobRevert(c *Call, req *structs.JobRevertRequest) error {
	var b struct {
		jobRevertBody
		VaultToken string
		DialectOptions
	}

	err := c.DecodeBody(&b)
	switch {
	case err != nil:
		return err
	case b.JobVersion == nil:
		return missing("JobVersion", "the number of a version of the job")
	}

	req.JobID = c.ID()
	req.JobVersion = *b.JobVersion
	req.EnforcePriorVersion = b.EnforcePriorVersion
	req.ConsulToken = structs.Secret(b.ConsulToken)
	return c.SameID("job", b.JobID)
}

// JobRevertOptions has the version that the job must have, if it is not nil, and the token of
// JobRegisterOptions.
type JobRevertOptions struct {
	PriorVersion *uint64
	ConsulToken  structs.Secret
}

// JobRevert makes an earlier version of a job the newest one.
func (c *Client) JobRevert(ctx context.Context, id string, version uint64, o JobRevertOptions) (
	*structs.JobRegisterResponse, error,
) {
	return jobRevert.Send(ctx, c, Request{ID: id, Body: jobRevertBody{
		JobID:               id,
		JobVersion:          &version,
		EnforcePriorVersion: o.PriorVersion,
		ConsulToken:         string(o.ConsulToken),
	}})
}

var jobScale = NewEndpoint(Put, "/v1/job/{id}/scale",
	ServeMethod(structs.JobScale, bindJobScale, Whole))

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

func bindJobScale(c *Call, req *structs.JobScaleRequest) error {
	var b struct {
		jobScaleBody
		DialectOptions
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

// JobScale changes the count of a group, or only stores an event of it if the event has no count. Of the
// event it sends Count, Message, Error and Meta.
func (c *Client) JobScale(ctx context.Context, id, group string, event structs.ScalingEvent) (
	*structs.JobRegisterResponse, error,
) {
	return jobScale.Send(ctx, c, Request{ID: id, Body: jobScaleBody{
		Count:   event.Count,
		Target:  map[string]string{"Group": group},
		Message: event.Message,
		Error:   event.Error,
		Meta:    event.Meta,
	}})
}

var jobScaleStatus = NewEndpoint(Get, "/v1/job/{id}/scale",
	ServeMethod(structs.JobScaleStatus, bindJob,
		func(a *structs.JobScaleStatusResponse) *structs.JobScaleCounts {
			return a.JobScaleStatus
		}))

// JobScaleStatus reads the counts of the groups of a job.
func (c *Client) JobScaleStatus(ctx context.Context, id string) (*structs.JobScaleCounts, error) {
	return jobScaleStatus.Send(ctx, c, Request{ID: id})
}
