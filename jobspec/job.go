package jobspec

import (
	"time"

	"github.com/hashicorp/hcl/v2"
)

// The blocks of a job file. A block whose fields have the order and types of its counterpart in structs
// converts to it, and the compiler checks that they agree. The unsupported names are those of the dialect
// that berth does not have yet.

type jobFile struct {
	Jobs []*job `hcl:"job,block"`
}

type job struct {
	Label       string            `hcl:",label"`
	At          hcl.Range         `hcl:",range"`
	Region      string            `hcl:"region"`
	Namespace   string            `hcl:"namespace"`
	ID          string            `hcl:"id"`
	Name        string            `hcl:"name"`
	Type        string            `hcl:"type"`
	Priority    *int              `hcl:"priority"`
	Datacenters []string          `hcl:"datacenters"`
	NodePool    string            `hcl:"node_pool"`
	Meta        map[string]string `hcl:"meta"`
	Constraints []*constraint     `hcl:"constraint,block"`
	Groups      []*group          `hcl:"group,block"`
	Tasks       []*task           `hcl:"task,block"` // each a group of its own

	AllAtOnce     struct{} `hcl:"all_at_once,unsupported"`
	Affinity      struct{} `hcl:"affinity,unsupported"`
	Consul        struct{} `hcl:"consul,unsupported"`
	Migrate       struct{} `hcl:"migrate,unsupported"`
	Multiregion   struct{} `hcl:"multiregion,unsupported"`
	Parameterized struct{} `hcl:"parameterized,unsupported"`
	Periodic      struct{} `hcl:"periodic,unsupported"`
	Reschedule    struct{} `hcl:"reschedule,unsupported"`
	Spread        struct{} `hcl:"spread,unsupported"`
	UI            struct{} `hcl:"ui,unsupported"`
	Update        struct{} `hcl:"update,unsupported"`
	Vault         struct{} `hcl:"vault,unsupported"`
	VaultToken    struct{} `hcl:"vault_token,unsupported"`
	ConsulToken   struct{} `hcl:"consul_token,unsupported"`
}

type group struct {
	Name          string             `hcl:",label"`
	At            hcl.Range          `hcl:",range"`
	Count         *int               `hcl:"count"`
	Constraints   []*constraint      `hcl:"constraint,block"`
	Restart       *restart           `hcl:"restart,block"`
	Reschedule    *reschedule        `hcl:"reschedule,block"`
	EphemeralDisk *ephemeralDisk     `hcl:"ephemeral_disk,block"`
	Volumes       map[string]*volume `hcl:"volume,block"`
	Meta          map[string]string  `hcl:"meta"`
	ShutdownDelay *time.Duration     `hcl:"shutdown_delay"`
	Tasks         []*task            `hcl:"task,block"`

	Affinity                  struct{} `hcl:"affinity,unsupported"`
	Consul                    struct{} `hcl:"consul,unsupported"`
	Disconnect                struct{} `hcl:"disconnect,unsupported"`
	MaxClientDisconnect       struct{} `hcl:"max_client_disconnect,unsupported"`
	Migrate                   struct{} `hcl:"migrate,unsupported"`
	Network                   struct{} `hcl:"network,unsupported"`
	PreventRescheduleOnLost   struct{} `hcl:"prevent_reschedule_on_lost,unsupported"`
	Scaling                   struct{} `hcl:"scaling,unsupported"`
	Service                   struct{} `hcl:"service,unsupported"`
	Spread                    struct{} `hcl:"spread,unsupported"`
	StopAfterClientDisconnect struct{} `hcl:"stop_after_client_disconnect,unsupported"`
	Update                    struct{} `hcl:"update,unsupported"`
	Vault                     struct{} `hcl:"vault,unsupported"`
}

type task struct {
	Name          string            `hcl:",label"`
	At            hcl.Range         `hcl:",range"`
	Driver        string            `hcl:"driver,required"`
	User          string            `hcl:"user"`
	Config        map[string]any    `hcl:"config"`
	Env           map[string]string `hcl:"env"`
	Constraints   []*constraint     `hcl:"constraint,block"`
	Restart       *restart          `hcl:"restart,block"`
	Resources     *resources        `hcl:"resources,block"`
	Meta          map[string]string `hcl:"meta"`
	KillTimeout   time.Duration     `hcl:"kill_timeout"`
	KillSignal    string            `hcl:"kill_signal"`
	Logs          *logs             `hcl:"logs,block"`
	Leader        bool              `hcl:"leader"`
	ShutdownDelay time.Duration     `hcl:"shutdown_delay"`
	VolumeMounts  []*volumeMount    `hcl:"volume_mount,block"`
	CSIPlugin     *csiPlugin        `hcl:"csi_plugin,block"`

	Action          struct{} `hcl:"action,unsupported"`
	Affinity        struct{} `hcl:"affinity,unsupported"`
	Artifact        struct{} `hcl:"artifact,unsupported"`
	Consul          struct{} `hcl:"consul,unsupported"`
	DispatchPayload struct{} `hcl:"dispatch_payload,unsupported"`
	Identity        struct{} `hcl:"identity,unsupported"`
	Kind            struct{} `hcl:"kind,unsupported"`
	Lifecycle       struct{} `hcl:"lifecycle,unsupported"`
	Scaling         struct{} `hcl:"scaling,unsupported"`
	Schedule        struct{} `hcl:"schedule,unsupported"`
	Secret          struct{} `hcl:"secret,unsupported"`
	Service         struct{} `hcl:"service,unsupported"`
	Template        struct{} `hcl:"template,unsupported"`
	Vault           struct{} `hcl:"vault,unsupported"`
}

type restart struct {
	Attempts *int           `hcl:"attempts"`
	Interval *time.Duration `hcl:"interval"`
	Delay    *time.Duration `hcl:"delay"`
	Mode     *string        `hcl:"mode"`

	RenderTemplates struct{} `hcl:"render_templates,unsupported"`
}

type reschedule struct {
	Attempts      *int           `hcl:"attempts"`
	Interval      *time.Duration `hcl:"interval"`
	Delay         *time.Duration `hcl:"delay"`
	DelayFunction *string        `hcl:"delay_function"`
	MaxDelay      *time.Duration `hcl:"max_delay"`
	Unlimited     *bool          `hcl:"unlimited"`
}

type ephemeralDisk struct {
	Size    *int `hcl:"size"`
	Sticky  bool `hcl:"sticky"`
	Migrate bool `hcl:"migrate"`
}

type volume struct {
	Type           string        `hcl:"type,required"`
	Source         string        `hcl:"source,required"`
	ReadOnly       bool          `hcl:"read_only"`
	AccessMode     string        `hcl:"access_mode"`
	AttachmentMode string        `hcl:"attachment_mode"`
	MountOptions   *mountOptions `hcl:"mount_options,block"`
	PerAlloc       bool          `hcl:"per_alloc"`

	Sticky struct{} `hcl:"sticky,unsupported"`
}

type mountOptions struct {
	FSType     string   `hcl:"fs_type"`
	MountFlags []string `hcl:"mount_flags"`
}

type resources struct {
	CPU         int      `hcl:"cpu"`
	Cores       int      `hcl:"cores"`
	MemoryMB    int      `hcl:"memory"`
	MemoryMaxMB int      `hcl:"memory_max"`
	Device      struct{} `hcl:"device,unsupported"`
	Disk        struct{} `hcl:"disk,unsupported"`
	IOPS        struct{} `hcl:"iops,unsupported"`
	Network     struct{} `hcl:"network,unsupported"`
	NUMA        struct{} `hcl:"numa,unsupported"`
	Secrets     struct{} `hcl:"secrets,unsupported"`
}

type logs struct {
	MaxFiles      int  `hcl:"max_files"`
	MaxFileSizeMB int  `hcl:"max_file_size"`
	Disabled      bool `hcl:"disabled"`
}

type volumeMount struct {
	Volume          string   `hcl:"volume,required"`
	Destination     string   `hcl:"destination,required"`
	ReadOnly        bool     `hcl:"read_only"`
	PropagationMode string   `hcl:"propagation_mode"`
	SELinuxLabel    struct{} `hcl:"selinux_label,unsupported"`
}

type csiPlugin struct {
	ID                  string        `hcl:"id,required"`
	Type                string        `hcl:"type,required"`
	MountDir            string        `hcl:"mount_dir"`
	StagePublishBaseDir string        `hcl:"stage_publish_base_dir"`
	HealthTimeout       time.Duration `hcl:"health_timeout"`
	HangTimeout         time.Duration `hcl:"hang_timeout"`
	FormerProvider      string        `hcl:"former_provider"`
}

// constraint has the long form (attribute, operator, value) and short ones that name the operator.
type constraint struct {
	At             hcl.Range `hcl:",range"`
	Attribute      string    `hcl:"attribute"`
	Operator       string    `hcl:"operator"`
	Value          *string   `hcl:"value"`
	Version        *string   `hcl:"version"`
	Semver         *string   `hcl:"semver"`
	Regexp         *string   `hcl:"regexp"`
	SetContains    *string   `hcl:"set_contains"`
	SetContainsAny *string   `hcl:"set_contains_any"`
	DistinctHosts  *bool     `hcl:"distinct_hosts"`

	DistinctProperty struct{} `hcl:"distinct_property,unsupported"`
}
