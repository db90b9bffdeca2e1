// The map as it comes over the wire: pools that have changed since the last answer, a device as an array.

export function takeMap(map, fresh) {
  if (fresh.number < map.number) map.pools.clear();
  map.number = fresh.number;
  for (const pool of fresh.pools)
    map.pools.set(`${pool.cluster}/${pool.pool}`, { number: pool.number, devices: pool.devices.map((row) => device(pool, row)) });
  const known = new Set(fresh.known);
  for (const key of [...map.pools.keys()]) if (!known.has(key)) map.pools.delete(key);
}

const device = (pool, [id, node, mode, healthy, node_phase, held]) =>
  ({ id, node, mode, healthy, node_phase, cluster: pool.cluster, pool: pool.pool, class_name: pool.class_name, held: held.map(cut) });

const cut = ([workload, tenant, mode, profile, start, slots, compute_milli, memory_mib]) =>
  ({ workload, tenant, slice: { mode, profile: profile || undefined, start, slots, compute_milli, memory_mib } });
