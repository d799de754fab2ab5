//! Structures and numbers of libibverbs (rdma-core, `libibverbs/verbs.h`), which its binary interface keeps as they are: symbols of
//! version `IBVERBS_1.1`, and the calls that a program makes by `ibv_context.ops`.

use libc::{c_char, c_int, c_uint, c_void};

/// `enum ibv_qp_type`, `IBV_QPT_UD`.
pub(super) const QPT_UD: c_int = 4;
/// `enum ibv_qp_state`.
pub(super) const QPS_INIT: c_int = 1;
pub(super) const QPS_RTR: c_int = 2;
pub(super) const QPS_RTS: c_int = 3;
/// `enum ibv_qp_attr_mask`.
pub(super) const QP_STATE: c_int = 1;
pub(super) const QP_PKEY_INDEX: c_int = 1 << 4;
pub(super) const QP_PORT: c_int = 1 << 5;
pub(super) const QP_QKEY: c_int = 1 << 6;
pub(super) const QP_SQ_PSN: c_int = 1 << 16;
/// `enum ibv_access_flags`, `IBV_ACCESS_LOCAL_WRITE`.
pub(super) const ACCESS_LOCAL_WRITE: c_int = 1;
/// `enum ibv_wr_opcode`, `IBV_WR_SEND`.
pub(super) const WR_SEND: c_int = 2;
/// `enum ibv_send_flags`.
pub(super) const SEND_SIGNALED: c_uint = 1 << 1;
pub(super) const SEND_INLINE: c_uint = 1 << 3;
/// `enum ibv_wc_flags`, `IBV_WC_GRH`.
pub(super) const WC_GRH: c_uint = 1;
/// `enum ibv_port_state`, `IBV_PORT_ACTIVE`.
pub(super) const PORT_ACTIVE: c_int = 4;
/// `IBV_LINK_LAYER_ETHERNET`.
pub(super) const LINK_LAYER_ETHERNET: u8 = 2;
/// `enum ibv_event_type`.
pub(super) const EVENT_QP_FATAL: c_int = 1;
pub(super) const EVENT_QP_REQ_ERR: c_int = 2;
pub(super) const EVENT_QP_ACCESS_ERR: c_int = 3;
pub(super) const EVENT_CQ_ERR: c_int = 0;
pub(super) const EVENT_DEVICE_FATAL: c_int = 8;

/// `struct ibv_device` up to the names; libibverbs owns it.
#[repr(C)]
pub(super) struct IbvDevice {
    pub(super) ops: [*mut c_void; 2],
    pub(super) node_type: c_int,
    pub(super) transport_type: c_int,
    pub(super) name: [c_char; 64],
    pub(super) dev_name: [c_char; 64],
    pub(super) dev_path: [c_char; 256],
    pub(super) ibdev_path: [c_char; 256],
}

pub(super) type PollCq = unsafe extern "C" fn(*mut IbvCq, c_int, *mut IbvWc) -> c_int;
pub(super) type ReqNotifyCq = unsafe extern "C" fn(*mut IbvCq, c_int) -> c_int;
pub(super) type PostSend = unsafe extern "C" fn(*mut IbvQp, *mut IbvSendWr, *mut *mut IbvSendWr) -> c_int;
pub(super) type PostRecv = unsafe extern "C" fn(*mut IbvQp, *mut IbvRecvWr, *mut *mut IbvRecvWr) -> c_int;

/// `struct ibv_context_ops`: the calls of the data path are not symbols of the library, but pointers that the provider sets here.
#[repr(C)]
pub(super) struct IbvContextOps {
    pub(super) before_poll: [*mut c_void; 11],
    pub(super) poll_cq: Option<PollCq>,
    pub(super) req_notify_cq: Option<ReqNotifyCq>,
    pub(super) between: [*mut c_void; 12],
    pub(super) post_send: Option<PostSend>,
    pub(super) post_recv: Option<PostRecv>,
    pub(super) behind: [*mut c_void; 5],
}

/// `struct ibv_context` up to its descriptors; libibverbs owns it, and more behind.
#[repr(C)]
pub(super) struct IbvContext {
    pub(super) device: *mut IbvDevice,
    pub(super) ops: IbvContextOps,
    pub(super) cmd_fd: c_int,
    pub(super) async_fd: c_int,
    pub(super) num_comp_vectors: c_int,
}

/// `struct ibv_device_attr`.
#[repr(C)]
pub(super) struct IbvDeviceAttr {
    pub(super) fw_ver: [c_char; 64],
    pub(super) guids: [u64; 2],
    pub(super) max_mr_size: u64,
    pub(super) page_size_cap: u64,
    pub(super) vendor: [u32; 3],
    pub(super) max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    pub(super) device_cap_flags: c_uint,
    pub(super) max_sge: c_int,
    pub(super) max_sge_rd: c_int,
    pub(super) max_cq: c_int,
    pub(super) max_cqe: c_int,
    pub(super) rest: [c_int; 22],
    pub(super) max_pkeys: u16,
    pub(super) local_ca_ack_delay: u8,
    pub(super) phys_port_cnt: u8,
}

/// `struct ibv_port_attr`. The library's symbol `ibv_query_port` fills in an older one, a prefix of this.
#[repr(C)]
pub(super) struct IbvPortAttr {
    pub(super) state: c_int,
    pub(super) max_mtu: c_int,
    pub(super) active_mtu: c_int,
    pub(super) gid_tbl_len: c_int,
    pub(super) counters: [u32; 4],
    pub(super) pkey_tbl_len: u16,
    pub(super) lid: u16,
    pub(super) sm_lid: u16,
    pub(super) lmc: u8,
    pub(super) max_vl_num: u8,
    pub(super) sm_sl: u8,
    pub(super) subnet_timeout: u8,
    pub(super) init_type_reply: u8,
    pub(super) active_width: u8,
    pub(super) active_speed: u8,
    pub(super) phys_state: u8,
    pub(super) link_layer: u8,
    pub(super) flags: u8,
    pub(super) port_cap_flags2: u16,
}

/// `union ibv_gid`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct IbvGid {
    pub(super) raw: [u8; 16],
}

/// `struct ibv_global_route` and `struct ibv_ah_attr`.
#[repr(C)]
pub(super) struct IbvAhAttr {
    pub(super) dgid: IbvGid,
    pub(super) flow_label: u32,
    pub(super) sgid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) dlid: u16,
    pub(super) sl: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port_num: u8,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct IbvQpCap {
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(super) struct IbvQpInitAttr {
    pub(super) qp_context: *mut c_void,
    pub(super) send_cq: *mut IbvCq,
    pub(super) recv_cq: *mut IbvCq,
    pub(super) srq: *mut c_void,
    pub(super) cap: IbvQpCap,
    pub(super) qp_type: c_int,
    pub(super) sq_sig_all: c_int,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
pub(super) struct IbvQpAttr {
    pub(super) qp_state: c_int,
    pub(super) cur_qp_state: c_int,
    pub(super) path_mtu: c_int,
    pub(super) path_mig_state: c_int,
    pub(super) qkey: u32,
    pub(super) rq_psn: u32,
    pub(super) sq_psn: u32,
    pub(super) dest_qp_num: u32,
    pub(super) qp_access_flags: c_uint,
    pub(super) cap: IbvQpCap,
    pub(super) ah_attr: IbvAhAttr,
    pub(super) alt_ah_attr: IbvAhAttr,
    pub(super) pkey_index: u16,
    pub(super) alt_pkey_index: u16,
    pub(super) en_sqd_async_notify: u8,
    pub(super) sq_draining: u8,
    pub(super) max_rd_atomic: u8,
    pub(super) max_dest_rd_atomic: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) port_num: u8,
    pub(super) timeout: u8,
    pub(super) retry_cnt: u8,
    pub(super) rnr_retry: u8,
    pub(super) alt_port_num: u8,
    pub(super) alt_timeout: u8,
    pub(super) rate_limit: u32,
}

/// `struct ibv_qp` up to its number.
#[repr(C)]
pub(super) struct IbvQp {
    pub(super) context: *mut IbvContext,
    pub(super) qp_context: *mut c_void,
    pub(super) pd: *mut c_void,
    pub(super) send_cq: *mut IbvCq,
    pub(super) recv_cq: *mut IbvCq,
    pub(super) srq: *mut c_void,
    pub(super) handle: u32,
    pub(super) qp_num: u32,
}

/// `struct ibv_cq` up to its length.
#[repr(C)]
pub(super) struct IbvCq {
    pub(super) context: *mut IbvContext,
    pub(super) channel: *mut IbvCompChannel,
    pub(super) cq_context: *mut c_void,
    pub(super) handle: u32,
    pub(super) cqe: c_int,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub(super) struct IbvCompChannel {
    pub(super) context: *mut IbvContext,
    pub(super) fd: c_int,
    pub(super) refcnt: c_int,
}

/// `struct ibv_mr`.
#[repr(C)]
pub(super) struct IbvMr {
    pub(super) context: *mut IbvContext,
    pub(super) pd: *mut c_void,
    pub(super) addr: *mut c_void,
    pub(super) length: usize,
    pub(super) handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct IbvSge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `struct ibv_send_wr`, with the part of its unions that unreliable datagrams use.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct IbvSendWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut IbvSendWr,
    pub(super) sg_list: *mut IbvSge,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_int,
    pub(super) send_flags: c_uint,
    pub(super) imm_data: u32,
    pub(super) ah: *mut c_void,
    pub(super) remote_qpn: u32,
    pub(super) remote_qkey: u32,
    /// The longest member of the first union has 32 bytes; 8 of `qp_type` and 48 of the last union follow.
    pub(super) rest: [u64; 9],
}

/// `struct ibv_recv_wr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct IbvRecvWr {
    pub(super) wr_id: u64,
    pub(super) next: *mut IbvRecvWr,
    pub(super) sg_list: *mut IbvSge,
    pub(super) num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct IbvWc {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) opcode: c_int,
    pub(super) vendor_err: u32,
    pub(super) byte_len: u32,
    pub(super) imm_data: u32,
    pub(super) qp_num: u32,
    pub(super) src_qp: u32,
    pub(super) wc_flags: c_uint,
    pub(super) pkey_index: u16,
    pub(super) slid: u16,
    pub(super) sl: u8,
    pub(super) dlid_path_bits: u8,
}

/// `struct ibv_async_event`.
#[repr(C)]
pub(super) struct IbvAsyncEvent {
    pub(super) element: *mut c_void,
    pub(super) event_type: c_int,
}

/// The structures as rdma-core's headers lay them out for 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<IbvDevice>() == 664 && size_of::<IbvContextOps>() == 256);
    assert!(offset_of!(IbvContextOps, poll_cq) == 88 && offset_of!(IbvContextOps, req_notify_cq) == 96);
    assert!(offset_of!(IbvContextOps, post_send) == 200 && offset_of!(IbvContextOps, post_recv) == 208);
    assert!(offset_of!(IbvContext, cmd_fd) == 264 && offset_of!(IbvContext, async_fd) == 268);
    assert!(size_of::<IbvDeviceAttr>() == 232 && offset_of!(IbvDeviceAttr, max_qp_wr) == 112);
    assert!(offset_of!(IbvDeviceAttr, max_cqe) == 132 && offset_of!(IbvDeviceAttr, phys_port_cnt) == 227);
    assert!(size_of::<IbvPortAttr>() == 52 && offset_of!(IbvPortAttr, link_layer) == 46);
    assert!(size_of::<IbvAhAttr>() == 32 && offset_of!(IbvAhAttr, port_num) == 30);
    assert!(size_of::<IbvQpInitAttr>() == 64 && offset_of!(IbvQpInitAttr, cap) == 32);
    assert!(size_of::<IbvQpAttr>() == 144 && offset_of!(IbvQpAttr, port_num) == 129);
    assert!(offset_of!(IbvQpAttr, pkey_index) == 120 && offset_of!(IbvQpAttr, rate_limit) == 136);
    assert!(offset_of!(IbvQp, qp_num) == 52 && offset_of!(IbvCq, cqe) == 28);
    assert!(size_of::<IbvCompChannel>() == 16 && size_of::<IbvMr>() == 48);
    assert!(size_of::<IbvSge>() == 16 && size_of::<IbvRecvWr>() == 32);
    assert!(size_of::<IbvSendWr>() == 128 && offset_of!(IbvSendWr, remote_qkey) == 52);
    assert!(size_of::<IbvWc>() == 48 && offset_of!(IbvWc, wc_flags) == 36);
    assert!(size_of::<IbvAsyncEvent>() == 16);
};
