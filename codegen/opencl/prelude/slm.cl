// 512 bytes of shared local memory: the words of all lanes side by side, and then their next ones.
static inline ushort16 prelude_slm_ushort16(local const ushort *from)
{
  from += get_sub_group_local_id();
  return (ushort16)(from[0], from[16], from[32], from[48], from[64], from[80], from[96], from[112],
                    from[128], from[144], from[160], from[176], from[192], from[208], from[224], from[240]);
}

static inline uint8 prelude_slm_uint8(local const uint *from)
{
  from += get_sub_group_local_id();
  return (uint8)(from[0], from[16], from[32], from[48], from[64], from[80], from[96], from[112]);
}

